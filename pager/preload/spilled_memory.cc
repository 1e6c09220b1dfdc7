// Memory of the engine's own, between the engine's allocator (spilled_blocks.cc) and the pager.
//
// The memory comes in arenas, each a region of the pager's (spill/spilled_chunks.h). The pager
// starts with the first arena, if no model was mapped before. What malloc hands out has no
// protection of its own: the engine may make a block inaccessible, but is not stopped when it
// touches the block then.
#include "pager/preload/spilled_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/log.h"
#include "pager/base/owned_fd.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/preload/error_kept.h"
#include "pager/preload/opened_files.h"
#include "pager/preload/session_state.h"
#include "pager/preload/spilled_blocks.h"

namespace weightpager::preload {

namespace {

// The device of the folder tells how many requests to keep in flight.
OwnedFd open_spill_folder() {
  return OwnedFd(
      ::open(session->configuration.spill_folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

std::atomic<bool> has_read_lazily{false};

// Whether the caller is the engine: the interposer's own files are none that the engine has read,
// and its threads must not wait for the pager.
bool is_engine_with_lazy_reads() {
  return has_read_lazily.load(std::memory_order_relaxed) && is_active() && !takes_plain_memory;
}

// A page of each chunk is asked for, and a chunk that cannot be read is no signal yet.
void keep_lazily_read(const io::FileIdentity* file) {
  const Inside inside;
  std::vector<std::byte*> absent;
  {
    const MutexLock lock(session->mutex);
    if (session->own_pager != nullptr) absent = session->own_pager->give_up_file(file);
  }
  for (std::byte* const chunk : absent) kernel::madvise(chunk, os_page_bytes, MADV_POPULATE_READ);
}

// Never destroyed: the pager asks for its blocks as long as it runs.
struct Arena {
  uint64_t length_bytes = 0;
  std::atomic<uintptr_t> begin{0};  // 0 while it is being made
};

bool has_block(const void* arena, uint64_t offset_bytes) {
  const uintptr_t begin = static_cast<const Arena*>(arena)->begin.load();
  return begin == 0 || is_any_block_in(reinterpret_cast<const void*>(begin + offset_bytes));
}

size_t blocks_of_arena(const void* context, std::span<Span> blocks) {
  const auto& arena = *static_cast<const Arena*>(context);
  const uintptr_t begin = arena.begin.load();
  return begin == 0 ? 0 : list_blocks({begin, begin + arena.length_bytes}, blocks);
}

}  // namespace

// ---- For the allocator ----

std::byte* add_spilled_memory(uint64_t length_bytes) {
  const Inside inside;
  const MutexLock lock(session->mutex);
  if (session->has_failed || session->configuration.spill_folder.empty()) return nullptr;
  // Files that are mapped later may be mapped writable.
  const bool is_asked_for = !is_spilling_for_readers();
  if (!start_pager({.fd = open_spill_folder().get(),
                    .expects_writable = true,
                    .is_asked_for = is_asked_for})) {
    if (!is_asked_for && end_spilling_for_readers()) session->configuration.spill_folder.clear();
    return nullptr;
  }
  if (session->own_pager == nullptr) return nullptr;
  auto* const arena = new Arena{.length_bytes = length_bytes};
  auto address = session->own_pager->add_spilled_memory(
      {.name = "memory of the engine's own, part " + std::to_string(session->arenas.size() + 1),
       .length_bytes = length_bytes,
       .blocks = {has_block, arena, blocks_of_arena}});
  if (!address) {
    report_error(address.error().message + "; the engine's memory is not served");
    return nullptr;
  }
  const auto begin = reinterpret_cast<uintptr_t>(*address);
  arena->begin.store(begin);
  session->arenas.push_back({begin, begin + length_bytes});
  publish_ranges();
  return *address;
}

void forget_spilled_memory(std::byte* begin, uint64_t length_bytes) {
  const Inside inside;
  bool is_forgotten = false;
  {
    const MutexLock lock(session->mutex);
    is_forgotten = session->own_pager != nullptr && session->own_pager->forget(begin, length_bytes);
  }
  // Somebody pins pages of it.
  if (!is_forgotten) std::memset(begin, 0, length_bytes);
}

Status note_lazy_read(int fd, uint64_t file_offset_bytes, std::byte* to, uint64_t length_bytes) {
  const Inside inside;
  const auto identity = io::settled_identity_of(fd);
  if (!identity) return fail("a descriptor of no file", "", EBADF);
  if (may_be_written({identity->device, identity->inode}))
    return fail("the engine may write to the file", "", ETXTBSY);
  Result<uint64_t> noted = uint64_t{0};
  {
    const MutexLock lock(session->mutex);
    if (session->own_pager == nullptr) return fail("no pager", "", ENODEV);
    noted = session->own_pager->read_lazily({.address = to,
                                             .length_bytes = length_bytes,
                                             .link = link_of_descriptor(fd),
                                             .file = *identity,
                                             .name = path_of(fd),
                                             .offset_bytes = file_offset_bytes});
  }
  if (!noted) return forward_error(std::move(noted));
  has_read_lazily.store(true);
  if (*noted < length_bytes) return fail("pages of the block are pinned", "", EBUSY);
  return {};
}

bool has_any_lazily_read() { return has_read_lazily.load(std::memory_order_relaxed); }

void keep_lazily_read(int folder, const char* path) {
  if (!is_active() || takes_plain_memory || path == nullptr) return;
  const ErrorKept kept;
  struct stat facts;
  if (fstatat(folder, path, &facts, 0) != 0 || !S_ISREG(facts.st_mode)) return;
  note_to_be_written({facts.st_dev, facts.st_ino});
  if (!has_read_lazily.load(std::memory_order_relaxed)) return;
  const io::FileIdentity file{.device = facts.st_dev, .inode = facts.st_ino};
  keep_lazily_read(&file);
}

void keep_lazily_read_for_child() {
  if (is_engine_with_lazy_reads()) keep_lazily_read(nullptr);
}

void count_blocks(int64_t blocks, int64_t length_bytes) {
  telemetry::Telemetry* const counters = session->telemetry;
  if (counters == nullptr) return;
  // Modulo 2^64 a negative number is subtracted. Any thread may count here, others only read.
  counters->blocks.fetch_add(static_cast<uint64_t>(blocks), std::memory_order_relaxed);
  const auto more_bytes = static_cast<uint64_t>(length_bytes);
  const uint64_t bytes =
      counters->block_bytes.fetch_add(more_bytes, std::memory_order_relaxed) + more_bytes;
  uint64_t most_bytes = counters->block_bytes_max;
  while (length_bytes > 0 && bytes > most_bytes &&
         !counters->block_bytes_max.compare_exchange_weak(most_bytes, bytes)) {
  }
}

// ---- For memory calls ----

bool touches_arena(const void* address, size_t length) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (begin >= spilled_end.load() || begin + length <= spilled_begin.load()) return false;
  const MutexLock lock(session->mutex);
  return std::any_of(session->arenas.begin(), session->arenas.end(), [&](const Range& arena) {
    return begin < arena.end && arena.begin < begin + length;
  });
}

// The kernel moves no page between places that are protected otherwise.
int protect_arena(int protection) {
  if ((protection & PROT_EXEC) == 0) return 0;
  notice("a block of the engine's memory is to be executed: refused, since --spill serves it");
  errno = EACCES;
  return -1;
}

void clear_in_arena(std::byte* address, size_t length) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const Span chunks = whole_chunks({begin, begin + length});
  if (chunks.is_empty()) {
    std::memset(address, 0, length);
    return;
  }
  std::memset(address, 0, chunks.begin - begin);
  forget_spilled_memory(reinterpret_cast<std::byte*>(chunks.begin), chunks.length_bytes());
  std::memset(reinterpret_cast<void*>(chunks.end), 0, begin + length - chunks.end);
}

// ---- Child processes ----

void before_fork_of_arenas() {
  session->inherited.clear();
  if (!session->arenas.empty()) session->inherited = session->own_pager->begin_fork();
}

void after_fork_of_arenas_in_parent() {
  if (!session->arenas.empty()) session->own_pager->end_fork();
}

// What was in the window is inherited. What was not is mapped from where it lies; what cannot be
// mapped, or not opened, is a SIGSEGV when it is touched, and never zeros.
void after_fork_of_arenas_in_child() {
  for (const InheritedPart& part : session->inherited) {
    const int fd = part.link.empty() ? -1 : ::open(part.link.c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_mapped =
        fd >= 0 && kernel::mmap(part.address, part.length_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
                                static_cast<off_t>(part.offset_bytes)) != MAP_FAILED;
    if (!is_mapped) kernel::mprotect(part.address, part.length_bytes, PROT_NONE);
    if (fd >= 0) ::close(fd);
  }
  session->arenas.clear();
}

}  // namespace weightpager::preload
