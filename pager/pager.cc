#include "pager/pager.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"

namespace weightpager {

using fault::Outcome;
using policy::Action;
using policy::ChunkId;
using telemetry::add;
using telemetry::raise_to;
using telemetry::set;
using window::ChunkState;
using window::Region;

namespace {

// Reads that may be in flight beyond the prefetch depth: what engine threads wait for never queues
// here.
constexpr uint32_t demand_reads_max = 64;
// Slots kept ready beyond those in use, while the window fills.
constexpr uint32_t slots_ahead = 32;
// The kernel lets go of a page that a read has just filled within microseconds.
constexpr int64_t held_retry_ns = 50'000;
constexpr int64_t standstill_retry_ns = 1'000'000;
// A disk that has not answered for so long may not answer at all; slow ones (an SD card: 20 MB/s)
// take about that for one chunk.
constexpr int64_t late_read_ns = 100'000'000;
constexpr uint64_t sample_interval_ns = 200'000'000;
constexpr uint64_t headroom_interval_ns = 50'000'000;
constexpr uint64_t order_interval_ns = 100'000'000;
// Slots between the disk and regions that chunks are copied into: as many as reads may end at once.
constexpr uint32_t staging_slots_min = 4;
constexpr uint32_t staging_slots_max = 16;

}  // namespace

Result<std::unique_ptr<Pager>> Pager::start(const PagerOptions& options) {
  WP_ASSERT(options.window_bytes >= window_bytes_min && options.telemetry != nullptr);
  const auto window_chunks = static_cast<uint32_t>(options.window_bytes / chunk_bytes);
  std::unique_ptr<Pager> it(new Pager(options, window_chunks));
  Status outcome;
  auto thread = start_thread("wp-pager", [&] { it->run(outcome); });
  if (!thread) return forward_error(std::move(thread));
  it->thread_ = std::move(*thread);
  it->is_started_.wait(false);
  if (outcome) return it;
  it->thread_.join();
  return forward_error(std::move(outcome));
}

Pager::Pager(const PagerOptions& options, uint32_t window_chunks)
    : options_(options),
      telemetry_(*options.telemetry),
      window_chunks_max_(
          std::max(window_chunks, static_cast<uint32_t>(options.window_bytes_max / chunk_bytes))),
      table_(window_chunks),
      window_chunks_(window_chunks),
      window_chunks_wanted_(window_chunks) {}

// ---- The pager's thread ----

void Pager::run(Status& outcome) {
  // Without a descriptor table of its own the pager works, but an engine could close its
  // descriptors.
  if (unshare(CLONE_FILES) != 0) {
    notice(
        "unshare(CLONE_FILES) is refused here: an engine that closes all descriptors will be "
        "stopped by weightpager's checks");
  }
  // Serving a fault takes microseconds and lets an engine thread go on; it should not wait for a
  // turn.
  thread_id_ = static_cast<int>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, static_cast<id_t>(thread_id_), -10);
  outcome = open_everything();
  const bool is_fine = outcome.has_value();
  is_started_ = true;
  is_started_.notify_one();
  if (is_fine) serve();
  // These descriptors exist in this thread's table only.
  reader_.reset();
  mapper_.reset();
  files_.clear();
  headroom_.reset();
  uffd_.reset();
  // Last, because its thread may be ringing: with the userfaultfd gone nobody waits at the
  // doorbell.
  pool_.reset();
  if (statm_fd_ >= 0) ::close(statm_fd_);
}

Status Pager::open_everything() {
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return forward_error(std::move(uffd));
  uffd_.emplace(std::move(*uffd));
  is_user_mode_only_ = uffd_->is_user_mode_only();
  if (is_user_mode_only_) {
    notice(
        "no right to serve faults inside system calls: weights that are written or sent are copied "
        "first, and rarer calls on them (sendmsg, vmsplice, ioctl) fail with EFAULT where they are "
        "not resident. To mend it: setfacl -m u:$USER:rw /dev/userfaultfd");
  }

  auto mapper = window::choose_mapper(options_.mapper, *uffd_);
  if (!mapper) return forward_error(std::move(mapper));
  mapper_ = std::move(*mapper);
  if (options_.mapper == "auto" && !mapper_->keeps_slot()) {
    notice("this kernel has no UFFDIO_MOVE (Linux 6.8): chunks are copied, at about 0.6 ms each");
  }

  auto pool = window::SlotPool::create(window_chunks_max_);
  if (!pool) return forward_error(std::move(pool));
  pool_ = std::move(*pool);
  emptied_slots_.reserve(window_chunks_max_);
  fit_table_to_window();

  // Requests to the device times their size, in chunks.
  const uint64_t in_flight_bytes =
      uint64_t{options_.device.queue_depth} * options_.device.read_bytes;
  const auto prefetch_reads_max = static_cast<uint32_t>(
      std::clamp<uint64_t>(in_flight_bytes / chunk_bytes, 4, std::max(window_chunks_ / 4, 4u)));
  policy_.emplace(table_, policy::Settings{.reads_max = prefetch_reads_max});

  if (auto done = doorbell_.hang(*uffd_); !done) return done;

  io::ReaderOptions reader_options;
  reader_options.watched_fd = uffd_->fd();
  reads_max_ = prefetch_reads_max + demand_reads_max;
  reader_options.reads_max = reads_max_;
  reader_options.read_bytes_max = chunk_bytes;
  reader_options.device_read_bytes = options_.device.read_bytes;
  auto reader = options_.open_reader ? options_.open_reader(reader_options)
                                     : io::open_uring_reader(reader_options);
  if (!reader) {
    notice("io_uring is not available (" + reader.error().message +
           "): reading with threads, a little slower. " + reader.error().hint);
    reader = io::open_pread_reader(reader_options);
  }
  if (!reader) return forward_error(std::move(reader));
  reader_ = std::move(*reader);

  if (options_.follows_memory_limit) headroom_.emplace();
  statm_fd_ = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  std::snprintf(telemetry_.mapper, sizeof telemetry_.mapper, "%s", mapper_->name());
  std::snprintf(telemetry_.reader, sizeof telemetry_.reader, "%s", reader_->name());
  set(telemetry_.window_bytes, uint64_t{window_chunks_} * chunk_bytes);
  return {};
}

void Pager::serve() {
  while (!is_stopping_) {
    // 1. Sleep until a read is finished, a thread faults, or somebody rings.
    const io::Wakeup wakeup = reader_->wait(sleep_max_ns());
    now_ns_ = telemetry::monotonic_ns();

    // 2. What was read is ready; what is waited for is mapped, and its toucher runs on.
    take_reads(wakeup);

    // 3. Faults: ready chunks are mapped at once, for the others the policy learns of the touch.
    if (wakeup.watched_fd_readable) take_faults();

    // 4. What engine threads ask for: regions, advice.
    take_commands();

    // 5. Chunks that could not be mapped because the kernel still held their pages.
    retry_held_chunks();

    // 6. While the window fills: memory that has arrived behind more slots.
    take_new_slots();

    // 7. Less memory than the window was meant to have, or more again.
    if (headroom_ && now_ns_ - headroom_seen_ns_ >= headroom_interval_ns) follow_memory_limit();

    // 8. Threads wait, and nothing came for a while: what is under way may never end.
    const bool is_in_vain = wakeup.completions.empty() && !wakeup.watched_fd_readable;
    if (is_in_vain && waiting_chunks_ > 0 && held_.empty()) policy_->on_standstill();

    // 9. Evict, hold and read what the policy wants, until it has no more wishes.
    carry_out_policy();

    // 10. Keep the counters.
    account();
  }
}

// Without an end (or until memory is to be looked at), unless the kernel has to be asked again for
// chunks whose pages it held, or threads wait: then it may be that nothing under way helps them.
int64_t Pager::sleep_max_ns() const {
  if (!held_.empty()) return held_retry_ns;
  if (waiting_chunks_ > 0) {
    return reader_->reads_in_flight() > 0 ? late_read_ns : standstill_retry_ns;
  }
  return headroom_ && !regions_.empty() ? static_cast<int64_t>(headroom_interval_ns) : -1;
}

void Pager::take_reads(const io::Wakeup& wakeup) {
  for (const io::Completion& completion : wakeup.completions) {
    const auto chunk = static_cast<ChunkId>(completion.tag);
    ServedFile& served = owner(chunk);
    const uint64_t expected_bytes = served.bytes_of(chunk);
    add(telemetry_.read_bytes, completion.length_bytes);
    if (waiting_[chunk].is_doomed) {
      waiting_[chunk].is_doomed = false;
      table_.finish_read(chunk);
      table_.release(chunk);
      close_idle_files();
      continue;
    }
    if (completion.error_number != 0) {
      fail_chunk(chunk, "reading the model file failed", completion.error_number);
      continue;
    }
    if (completion.length_bytes < expected_bytes) {
      const char* const what = "the model file became shorter while it was in use";
      if (!ends_there(served, chunk, completion.length_bytes)) {
        fail_chunk(chunk, what, EIO);
        continue;
      }
      report_failure(served, served.offset_of(chunk) + completion.length_bytes,
                     served.offset_of(chunk) + expected_bytes, what, EIO);
      seal_from(chunk, static_cast<uint32_t>(round_up(completion.length_bytes, os_page_bytes) /
                                             os_page_bytes));
    }
    // The slot held another chunk before: behind the file's end mmap shows zeros.
    if (completion.length_bytes < chunk_bytes) {
      std::memset(slot_of(chunk) + completion.length_bytes, 0,
                  chunk_bytes - completion.length_bytes);
    }
    if (!served.file.is_direct()) {
      kernel::fadvise(served.file.fd(), static_cast<off_t>(served.offset_of(chunk)),
                      static_cast<off_t>(chunk_bytes), POSIX_FADV_DONTNEED);
    }
    table_.finish_read(chunk);
    const bool wants_map = policy_->on_ready(chunk);
    if (wants_map || waiting_[chunk].is_waited_for) map(chunk);
  }
}

// Whether the file now ends inside the chunk, and the read came as far as that. Otherwise what is
// missing is no file's end, and nothing may be shown in its place.
bool Pager::ends_there(const ServedFile& served, ChunkId chunk, uint64_t length_bytes) const {
  struct stat facts;
  if (length_bytes == 0 || fstat(served.file.fd(), &facts) != 0) return false;
  return static_cast<uint64_t>(facts.st_size) == served.offset_of(chunk) + length_bytes;
}

void Pager::take_faults() {
  std::array<fault::Fault, 64> faults;
  for (;;) {
    const size_t count = uffd_->read_faults(faults);
    for (size_t i = 0; i < count; ++i) take_fault(faults[i]);
    if (count < faults.size()) return;
  }
}

void Pager::take_fault(const fault::Fault& fault) {
  if (doorbell_.owns(fault.address)) {
    is_rung_ = true;
    return doorbell_.answer(*uffd_, fault.address);
  }
  const Place place = find(fault.address);
  // Not (or no longer) the pager's page: whoever touched it may go on.
  if (place.region == nullptr) return wake_page(fault.address);
  Region& region = *place.region;
  ServedFile& served = *place.served;
  const uint32_t index = region.chunk_index(fault.address);
  Region::Notes& notes = region.notes(index);
  if (fault.is_write_to_protected && notes.is_placed) return take_write(served, region, index);

  const ChunkId chunk = served.chunk_of(region, index);
  const ChunkState state = table_.state(chunk);
  // An old message: the chunk came (or was given up) after it was sent.
  if (notes.is_placed || state == ChunkState::failed) return wake_page(fault.address);
  // Every thread that touches the chunk sends a message, and one more after each signal.
  if (notes.is_waited_for) return;
  notes.is_waited_for = true;
  served.favoured = &region;
  if (waiting_[chunk].is_waited_for) return;
  waiting_[chunk].is_waited_for = true;
  if (waiting_chunks_++ == 0) stalled_since_ns_ = now_ns_;
  set(telemetry_.last_event_ns, now_ns_);
  add(state == ChunkState::absent    ? telemetry_.faults_demand
      : state == ChunkState::reading ? telemetry_.faults_late
                                     : telemetry_.faults_tripwire,
      1);
  policy_->on_touch(chunk, static_cast<uint32_t>(fault.address % chunk_bytes));
  if (state == ChunkState::ready) map(chunk);
  // It lies in another region of the same file, where somebody may just be about to use it.
  if (state == ChunkState::mapped) held_.push_back(chunk);
}

// The engine writes to a chunk. In a writable region its pages are the engine's own from now on, as
// they would be with mmap. In any other region the thread gets its SIGSEGV, as with mmap.
void Pager::take_write(ServedFile& served, Region& region, uint32_t index) {
  Region::Notes& notes = region.notes(index);
  if (!region.extent().is_writable) {
    notes.is_write_refused = true;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      kernel::mprotect(address, length_bytes, PROT_READ);
      uffd_->wake(address, length_bytes);
    });
    return;
  }
  uint64_t written_bytes = 0;
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    // A child process inherits what was written; what was not it maps from the file.
    kernel::madvise(address, length_bytes, MADV_DOFORK);
    uffd_->protect(address, length_bytes, false);
    written_bytes += length_bytes;
  });
  add(telemetry_.written_bytes, written_bytes);
  region.drop_pages(index, 0, window::pages_per_chunk);
  notes.is_placed = false;
  notes.is_written = true;
  const ChunkId chunk = served.chunk_of(region, index);
  release_if_nowhere(chunk);
  is_order_stale_ = true;
}

void Pager::retry_held_chunks() {
  const size_t count = held_.size();
  for (size_t i = 0; i < count; ++i) {
    const ChunkId chunk = held_.front();
    held_.erase(held_.begin());
    if (!waiting_[chunk].is_waited_for) continue;
    if (table_.state(chunk) == ChunkState::mapped) {
      move_to_waiter(chunk);
    } else if (table_.state(chunk) == ChunkState::ready) {
      map(chunk);
    }
  }
}

void Pager::take_new_slots() {
  const uint32_t populated = pool_->populated();
  if (populated > slots_taken_) {
    prepare_slots(slots_taken_, populated - slots_taken_);
    for (; slots_taken_ < populated; ++slots_taken_) table_.add_slot(slots_taken_);
    trim_slots();
  }
  if (!regions_.empty()) ask_for_slots();
}

void Pager::prepare_slots(window::SlotId first, uint32_t count) {
  auto prepared = mapper_->prepare_slots(pool_->address(first), uint64_t{count} * chunk_bytes);
  if (prepared) return;
  report_error(prepared.error().message);
  std::abort();
}

// The window's memory is what chunks hold plus free slots. While less than the window is in use,
// a few free slots are kept ready: emptied ones are filled again, others are made by the pool.
void Pager::ask_for_slots() {
  const uint32_t in_use = table_.resident() + table_.free_slots();
  if (table_.free_slots() >= slots_ahead || in_use >= window_chunks_) return;
  if (!emptied_slots_.empty()) {
    const window::SlotId slot = emptied_slots_.back();
    emptied_slots_.pop_back();
    pool_->refill(slot);
    prepare_slots(slot, 1);
    return table_.add_slot(slot);
  }
  pool_->want(
      slots_taken_ + std::min(slots_ahead, window_chunks_ - in_use),
      [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); }, &doorbell_);
}

// A chunk that was copied into a region leaves its slot behind: memory beyond the window goes back.
void Pager::trim_slots() {
  while (table_.free_slots() > 0 && table_.resident() + table_.free_slots() > window_chunks_) {
    const window::SlotId slot = table_.remove_slot();
    uffd_->unregister_range(pool_->address(slot), chunk_bytes);
    pool_->empty(slot);
    emptied_slots_.push_back(slot);
  }
}

void Pager::set_window(uint32_t chunks) {
  window_chunks_ = chunks;
  set(telemetry_.window_bytes, uint64_t{chunks} * chunk_bytes);
  fit_table_to_window();
  trim_slots();
}

void Pager::follow_memory_limit() {
  headroom_seen_ns_ = now_ns_;
  const auto left_bytes = headroom_->bytes();
  if (!left_bytes) return;
  const uint32_t chunks =
      window::window_chunks_that_fit(window_chunks_, window_chunks_wanted_, *left_bytes);
  if (chunks == window_chunks_) return;
  if (chunks < window_chunks_ && !has_told_of_limit_) {
    has_told_of_limit_ = true;
    notice(
        "the memory limit is near (" + headroom_->source() + "): the window shrinks from " +
        format_size(uint64_t{window_chunks_} * chunk_bytes) + " to " +
        format_size(uint64_t{chunks} * chunk_bytes) +
        ", and grows again when there is room. To mend it: a smaller --window or a higher limit");
  }
  set_window(chunks);
}

// Where chunks are copied, some of the window must stay free for slots between disk and regions.
void Pager::fit_table_to_window() {
  const bool copies = !mapper_->keeps_slot() ||
                      std::any_of(regions_.begin(), regions_.end(), [](const Place& place) {
                        return place.region->extent().is_writable;
                      });
  const uint32_t staging_slots =
      copies ? std::clamp(window_chunks_ / 16, staging_slots_min, staging_slots_max) : 0;
  if (table_.resident_max() == window_chunks_ - staging_slots) return;
  table_.set_resident_max(window_chunks_ - staging_slots);
  if (policy_) policy_->on_resized();
}

void Pager::carry_out_policy() {
  while (reader_->reads_in_flight() < reads_max_) {
    const Action action = policy_->next();
    switch (action.kind) {
      case Action::Kind::none:
        return;
      case Action::Kind::read:
        start_read(action.chunk);
        break;
      case Action::Kind::evict:
        evict(action.chunk);
        break;
      case Action::Kind::hold:
        hold(action.chunk);
        break;
    }
  }
}

void Pager::account() {
  const bool is_reading = reader_->reads_in_flight() > 0;
  if (is_reading && reading_since_ns_ == 0) {
    reading_since_ns_ = now_ns_;
  } else if (reading_since_ns_ != 0) {
    add(telemetry_.read_busy_ns, now_ns_ - reading_since_ns_);
    reading_since_ns_ = is_reading ? now_ns_ : 0;
  }
  const uint64_t resident_bytes = uint64_t{table_.resident()} * chunk_bytes;
  set(telemetry_.resident_bytes, resident_bytes);
  raise_to(telemetry_.resident_bytes_max, resident_bytes);
  const policy::PolicyStatistics& statistics = policy_->statistics();
  set(telemetry_.prefetch_hidden, statistics.prefetch_hidden);
  set(telemetry_.prefetch_unused, statistics.prefetch_unused);
  set(telemetry_.passes, statistics.passes);
  // What the engine wrote is not read ahead any more; told now and then, not at each write.
  if (is_order_stale_ && now_ns_ - order_told_ns_ > order_interval_ns) tell_order();
  set(telemetry_.expert_uses, statistics.expert_uses);
  set(telemetry_.expert_misses, statistics.expert_misses);
  set(telemetry_.expert_missing_bytes, statistics.expert_chunks_missing * chunk_bytes);
  if (now_ns_ - sampled_ns_ < sample_interval_ns || statm_fd_ < 0) return;

  sampled_ns_ = now_ns_;
  raise_to(telemetry_.engine_bytes_max, engine_bytes());
}

// The process's memory beside the window: what the engine has on its own.
uint64_t Pager::engine_bytes() const {
  char text[128] = {};
  if (pread(statm_fd_, text, sizeof text - 1, 0) <= 0) return 0;
  unsigned long long resident_pages = 0;
  if (std::sscanf(text, "%*u %llu", &resident_pages) != 1) return 0;
  const uint64_t process_bytes = resident_pages * os_page_bytes;
  const uint64_t window_bytes =
      uint64_t{std::min(table_.resident() + table_.free_slots(), window_chunks_)} * chunk_bytes;
  return process_bytes > window_bytes ? process_bytes - window_bytes : 0;
}

// ---- Chunks ----

// Regions by address; those of an engine with many small mappings are a thousand.
Pager::Place Pager::find(uintptr_t address) {
  const auto behind = std::upper_bound(
      regions_.begin(), regions_.end(), address, [](uintptr_t at, const Place& place) {
        return at < reinterpret_cast<uintptr_t>(place.region->address());
      });
  if (behind == regions_.begin()) return {};
  const Place& place = *std::prev(behind);
  return place.region->contains(address) && place.region->is_live_at(address) ? place : Place{};
}

void Pager::wake_page(uintptr_t address) {
  uffd_->wake(reinterpret_cast<void*>(round_down(address, os_page_bytes)), os_page_bytes);
}

std::byte* Pager::slot_of(ChunkId chunk) { return pool_->address(table_.slot(chunk)); }

void Pager::start_read(ChunkId chunk) {
  const ServedFile& served = owner(chunk);
  const window::SlotId slot = table_.start_read(chunk);
  reader_->start({.tag = chunk,
                  .fd = served.file.fd(),
                  .offset_bytes = served.offset_of(chunk),
                  .length_bytes = static_cast<uint32_t>(chunk_bytes),
                  .buffer = pool_->address(slot)});
}

bool Pager::is_moved(const Region& region, uint32_t index) const {
  return mapper_->keeps_slot() && !region.extent().is_writable && region.edge(index) == nullptr;
}

Outcome Pager::place(Region& region, uint32_t index, std::byte* slot) {
  Region::Notes& notes = region.notes(index);
  if (notes.is_placed) return Outcome::done;
  Outcome outcome;
  if (is_moved(region, index)) {
    outcome = mapper_->map(region.chunk_address(index), slot);
    if (outcome == Outcome::done) {
      // Only then may who waits go on: its access may be the write that must not be.
      uffd_->protect(region.chunk_address(index), chunk_bytes, true);
      if (notes.is_waited_for) uffd_->wake(region.chunk_address(index), chunk_bytes);
    }
  } else {
    outcome = window::copy_live_pages(*uffd_, region, index, slot);
  }
  notes.is_placed = outcome == Outcome::done;
  return outcome;
}

// ready → mapped. Wakes who waits for the chunk.
void Pager::map(ChunkId chunk) {
  const ServedFile& served = owner(chunk);
  Region* const home = served.home_of(chunk);
  Outcome outcome = Outcome::done;
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    if (outcome != Outcome::done || region.edge(index) == nullptr) return;
    outcome = place(region, index, slot_of(chunk));
  });
  bool keeps_slot = false;
  if (home != nullptr && outcome == Outcome::done) {
    const uint32_t index = chunk - served.first_chunk - home->first_file_chunk();
    outcome = place(*home, index, slot_of(chunk));
    keeps_slot = is_moved(*home, index);
  }
  switch (outcome) {
    case Outcome::done:
      table_.map(chunk, keeps_slot);
      stop_waiting(chunk);
      if (!keeps_slot) trim_slots();
      return;
    case Outcome::busy:
      // Nobody waits: it stays ready, a tripwire. Somebody waits: again in a moment.
      if (waiting_[chunk].is_waited_for) held_.push_back(chunk);
      return;
    case Outcome::exists:
      return fail_chunk(chunk, "the address range of the model was written to by somebody else",
                        EEXIST);
    case Outcome::failed:
      return fail_chunk(chunk, "the kernel refused to map it", errno);
  }
}

// Takes the chunk out of every region. If it has a slot, its bytes are then there. False: the
// kernel refused, and all is as before.
bool Pager::take_out(ChunkId chunk) {
  const ServedFile& served = owner(chunk);
  const bool has_slot = table_.slot(chunk) != window::no_slot;
  bool is_out = true;
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    if (!notes.is_placed || !has_slot || !is_moved(region, index)) return;
    std::byte* address = region.chunk_address(index);
    if (notes.is_write_refused) {
      kernel::mprotect(address, chunk_bytes, PROT_READ | PROT_WRITE);
      notes.is_write_refused = false;
    }
    is_out = mapper_->unmap(address, slot_of(chunk)) == Outcome::done;
    notes.is_placed = !is_out;
  });
  if (!is_out) return false;
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    if (!region.notes(index).is_placed) return;
    window::drop_live_pages(region, index);
    region.notes(index).is_placed = false;
  });
  return true;
}

// mapped → ready: the next touch will be noticed.
void Pager::hold(ChunkId chunk) {
  const bool has_slot = table_.slot(chunk) != window::no_slot;
  if (!has_slot || waiting_[chunk].is_waited_for || !take_out(chunk)) {
    return policy_->on_refused(chunk);
  }
  table_.hold(chunk);
}

// Somebody waits for a mapped chunk in another region than the one that it lies in. One that was
// copied there is copied on from there; what only lies in edges has to be read anew.
void Pager::move_to_waiter(ChunkId chunk) {
  ServedFile& served = owner(chunk);
  Region* const target = served.home_of(chunk);
  Region* source = nullptr;
  uint32_t source_index = 0;
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    const bool is_copied_whole = region.notes(index).is_placed && region.edge(index) == nullptr;
    if (!is_copied_whole || is_moved(region, index)) return;
    source = &region;
    source_index = index;
  });
  const uint32_t index =
      target == nullptr ? 0 : chunk - served.first_chunk - target->first_file_chunk();
  // Into a region that chunks are moved to they need a slot.
  const bool can_copy =
      source != nullptr && target != nullptr && target != source && !is_moved(*target, index);
  if (can_copy && table_.slot(chunk) == window::no_slot) {
    const std::byte* const bytes = source->chunk_address(source_index);
    if (window::copy_live_pages(*uffd_, *target, index, bytes) != Outcome::done) {
      return held_.push_back(chunk);
    }
    target->notes(index).is_placed = true;
    window::drop_live_pages(*source, source_index);
    source->notes(source_index).is_placed = false;
    return stop_waiting(chunk);
  }
  if (!take_out(chunk)) return held_.push_back(chunk);
  if (table_.slot(chunk) != window::no_slot) {
    table_.hold(chunk);
    return map(chunk);
  }
  table_.release(chunk);
  policy_->on_touch(chunk);
}

void Pager::evict(ChunkId chunk) {
  if (waiting_[chunk].is_waited_for || !take_out(chunk)) return policy_->on_refused(chunk);
  table_.release(chunk);
  add(telemetry_.evictions, 1);
  trim_slots();
  if (table_.free_slots() == 0) ask_for_slots();
}

// The engine took the chunk's last pages away. Who waits for it in another region needs it anew.
void Pager::release_if_nowhere(ChunkId chunk) {
  if (table_.state(chunk) != ChunkState::mapped || owner(chunk).is_placed(chunk)) return;
  table_.release(chunk);
  if (waiting_[chunk].is_waited_for) policy_->on_touch(chunk);
}

// Who waits where the chunk now lies was woken by that; who waits for it in another region touches
// it again, and is then told apart from who just had it.
void Pager::stop_waiting(ChunkId chunk) {
  if (!waiting_[chunk].is_waited_for) return;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const bool must_retry = notes.is_waited_for && !notes.is_placed;
    notes.is_waited_for = false;
    if (!must_retry) return;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      uffd_->wake(address, length_bytes);
    });
  });
  waiting_[chunk].is_waited_for = false;
  if (--waiting_chunks_ == 0)
    add(telemetry_.stall_ns, telemetry::monotonic_ns() - stalled_since_ns_);
}

// Never zeros: whoever touches the chunk gets SIGBUS, now and later.
void Pager::fail_chunk(ChunkId chunk, const char* what, int error_number) {
  const ServedFile& served = owner(chunk);
  report_failure(served, served.offset_of(chunk), served.offset_of(chunk) + served.bytes_of(chunk),
                 what, error_number);
  table_.fail(chunk);
  seal_from(chunk, 0);
  stop_waiting(chunk);
}

void Pager::report_failure(const ServedFile& served, uint64_t begin_bytes, uint64_t end_bytes,
                           const char* what, int error_number) {
  char text[512];
  std::snprintf(text, sizeof text,
                "%s: %s, bytes %llu to %llu: %s; an engine that touches them gets SIGBUS",
                served.name.c_str(), what, static_cast<unsigned long long>(begin_bytes),
                static_cast<unsigned long long>(end_bytes), std::strerror(error_number));
  report_error(text);
  add(telemetry_.read_errors, 1);
}

// Seals a chunk from its page `first` on, in every region, and wakes who waits there.
void Pager::seal_from(ChunkId chunk, uint32_t first) {
  const uint32_t count = static_cast<uint32_t>(window::pages_per_chunk) - first;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const std::byte* const from = region.chunk_address(index) + uint64_t{first} * os_page_bytes;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      std::byte* const end = address + length_bytes;
      if (end <= from) return;
      if (address < from) address += from - address;
      const auto sealed_bytes = static_cast<uint64_t>(end - address);
      Region::seal(address, sealed_bytes);
      uffd_->wake(address, sealed_bytes);
    });
    if (region.drop_sealed_pages(index, first, count))
      notes.is_placed = notes.is_waited_for = false;
  });
}

}  // namespace weightpager
