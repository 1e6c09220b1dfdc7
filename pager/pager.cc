#include "pager/pager.h"

#include <chrono>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"

namespace weightpager {

namespace {

// Writes to the spill file end after about as long.
constexpr std::chrono::microseconds fork_pause{200};

}  // namespace

Result<std::unique_ptr<Pager>> Pager::start(const PagerOptions& options) {
  WP_ASSERT(options.window_bytes >= window_bytes_min && options.telemetry != nullptr);
  WP_ASSERT(is_chunk_size(options.chunk_bytes));
  std::unique_ptr<Pager> it(new Pager(options));
  auto thread = start_thread_that_opens(
      "wp-pager", [loop = &it->loop_](std::promise<Status>& opened) { loop->run(opened); });
  if (!thread) return forward_error(std::move(thread));
  it->thread_ = std::move(*thread);
  return it;
}

Pager::~Pager() {
  if (!thread_.joinable()) return;
  loop_.execute([&] { loop_.stop(); });
  thread_.join();
}

// ---- Engines ----

Result<std::byte*> Pager::add_region(const RegionRequest& request) {
  Result<std::byte*> address = nullptr;
  loop_.execute([&] {
    address = loop_.regions().add_region(request);
    loop_.note_start();
  });
  return address;
}

void Pager::remove(std::byte* address, uint64_t length_bytes) {
  loop_.execute([&] { loop_.regions().remove(loop_.spaces().own(), address, length_bytes); });
}

void Pager::advise(std::byte* address, uint64_t length_bytes, Advice advice) {
  loop_.execute(
      [&] { loop_.regions().advise(loop_.spaces().own(), address, length_bytes, advice); });
}

void Pager::protect(std::byte* address, uint64_t length_bytes, bool is_accessible) {
  loop_.execute([&] { loop_.regions().protect(address, length_bytes, is_accessible); });
}

std::string Pager::file_link(std::byte* address) {
  std::string link;
  loop_.execute([&] { link = loop_.regions().file_link(address); });
  return link;
}

std::vector<Span> Pager::written_spans() {
  std::vector<Span> spans;
  loop_.execute([&] { spans = loop_.regions().written_spans(); });
  return spans;
}

void Pager::residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) {
  loop_.execute([&] { loop_.regions().residency(address, length_bytes, pages); });
}

// ---- Spilled memory ----

Result<std::byte*> Pager::add_spilled_memory(const SpilledMemoryRequest& request) {
  Result<std::byte*> address = nullptr;
  loop_.execute([&] {
    address = loop_.regions().add_spilled_memory(request);
    loop_.note_start();
  });
  return address;
}

bool Pager::forget(std::byte* address, uint64_t length_bytes) {
  bool is_all = false;
  loop_.execute([&] { is_all = loop_.spilling().forget(address, length_bytes); });
  return is_all;
}

Result<uint64_t> Pager::read_lazily(const LazyRead& read) {
  Result<uint64_t> done_bytes = uint64_t{0};
  loop_.execute([&] { done_bytes = loop_.spilling().read_lazily(read); });
  return done_bytes;
}

std::vector<std::byte*> Pager::give_up_file(const io::FileIdentity* file) {
  std::vector<std::byte*> absent;
  loop_.execute([&] { absent = loop_.spilling().give_up_file(file); });
  return absent;
}

std::vector<InheritedPart> Pager::begin_fork() {
  std::vector<InheritedPart> parts;
  for (bool is_done = false; !is_done;) {
    loop_.execute([&] { is_done = loop_.spilling().begin_fork(parts); });
    if (!is_done) std::this_thread::sleep_for(fork_pause);
  }
  return parts;
}

void Pager::end_fork() {
  loop_.execute([&] { loop_.spilling().end_fork(); });
}

// ---- Whoever looks on ----

uint64_t Pager::resize(uint64_t window_bytes) {
  loop_.execute([&] { window_bytes = loop_.resize(window_bytes); });
  return window_bytes;
}

size_t Pager::look(std::span<FileView> views) {
  size_t files = 0;
  loop_.execute([&] { files = loop_.look(views); });
  return files;
}

std::vector<std::string> Pager::lazy_files() {
  std::vector<std::string> names;
  loop_.execute([&] { names = loop_.lazy_files(); });
  return names;
}
uint32_t Pager::look(policy::ChunkId first, std::span<ChunkView> states) {
  uint32_t chunks = 0;
  loop_.execute([&] { chunks = loop_.look(first, states); });
  return chunks;
}

void Pager::trace_to(telemetry::EventRing* events) {
  loop_.execute([&] { loop_.recorder().trace_to(events); });
}

Status Pager::change_policy(const std::string& name) {
  Status outcome;
  loop_.execute([&] { outcome = loop_.policy().change_policy(name); });
  return outcome;
}

uint32_t Pager::keep(std::span<const policy::ChunkId> chunks) {
  uint32_t pinned = 0;
  loop_.execute([&] { pinned = loop_.policy().pin(chunks); });
  return pinned;
}

uint32_t Pager::evict(std::span<const policy::ChunkId> chunks) {
  uint32_t evicted = 0;
  loop_.execute([&] { evicted = loop_.evict(chunks); });
  return evicted;
}

uint32_t Pager::drop() {
  uint32_t evicted = 0;
  loop_.execute([&] { evicted = loop_.drop(); });
  return evicted;
}

// ---- Guests ----

Result<const ServedFile*> Pager::keep_file(const RegionRequest& request) {
  Result<const ServedFile*> file = nullptr;
  loop_.execute([&] { file = loop_.regions().keep_file(request); });
  return file;
}

std::string Pager::link_if_changed(const ServedFile* served) {
  std::string link;
  loop_.execute([&] { link = loop_.regions().link_if_changed(served); });
  return link;
}

void Pager::forsake_file(const ServedFile* served) {
  loop_.execute([&] { loop_.regions().forsake_file(served); });
}

Result<Pager::Guest*> Pager::add_guest(std::unique_ptr<Guest> guest) {
  Result<Guest*> added = nullptr;
  loop_.execute([&] { added = loop_.spaces().add_guest(std::move(guest)); });
  return added;
}

Status Pager::add_guest_region(Guest* guest, const ServedFile* served, const window::Extent& extent,
                               std::byte* address) {
  Status outcome;
  loop_.execute([&] {
    outcome = loop_.regions().add_guest_region(*guest, served, extent, address);
    loop_.note_start();
  });
  return outcome;
}

void Pager::remove_from_guest(Guest* guest, std::byte* address, uint64_t length_bytes) {
  loop_.execute([&] { loop_.regions().remove(*guest, address, length_bytes); });
}

void Pager::advise_for_guest(Guest* guest, std::byte* address, uint64_t length_bytes,
                             Advice advice) {
  loop_.execute([&] { loop_.regions().advise(*guest, address, length_bytes, advice); });
}

void Pager::remove_guest(Guest* guest) {
  loop_.execute([&] { loop_.regions().remove_guest(guest); });
}

}  // namespace weightpager
