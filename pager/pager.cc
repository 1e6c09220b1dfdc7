#include "pager/pager.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "pager/telemetry/probes.h"

namespace weightpager {

namespace probes = telemetry::probes;
using fault::Outcome;
using policy::Action;
using policy::ChunkId;
using telemetry::add;
using telemetry::EventKind;
using telemetry::Histogram;
using telemetry::raise_to;
using telemetry::set;
using window::AddressSpace;
using window::ChunkState;
using window::Region;
using window::Run;
using window::Tripwires;

namespace {

// Memory kept ready beyond what is in use, while the window fills; and how much of it is made anew
// between two looks at faults, where it was given back before.
constexpr uint64_t bytes_ahead = 64 * MiB;
constexpr uint64_t refill_bytes = 2 * MiB;
constexpr std::chrono::milliseconds memory_pause{1};
// The kernel lets go of a page that a read has just filled within microseconds.
constexpr int64_t held_retry_ns = 50'000;
constexpr int64_t standstill_retry_ns = 1'000'000;
// A disk that has not answered for so long may not answer at all; slow ones (an SD card: 20 MB/s)
// take about that for one chunk.
constexpr int64_t late_read_ns = 100'000'000;
// Of a chunk that is being recorded a touch counts once more when so much else was touched since.
constexpr uint64_t recorded_bytes = 32 * MiB;
constexpr uint64_t sample_interval_ns = 200'000'000;
constexpr uint64_t headroom_interval_ns = 50'000'000;
constexpr uint64_t order_interval_ns = 100'000'000;
// For the policies on paper: a fast disk's, as what is slow about a slow one is its bandwidth.
constexpr uint64_t read_latency_ns = 80'000;
// Experts of which one page is away, at once.
constexpr uint32_t tripwires_max = 4096;
// Chunks that are hidden between two looks at faults, when a sample begins: 1 ms.
constexpr uint32_t hidden_at_once = 64;
// Slots between the disk and regions that chunks are copied into: as many as reads may end at once.
constexpr uint64_t staging_bytes_min = 8 * MiB;
constexpr uint64_t staging_bytes_max = 32 * MiB;
// What slots are filled with whose memory only has to be there. Nobody writes to it, so it takes
// none.
std::byte no_bytes[chunk_bytes_max];

// What a read is called: its first chunk, and how many there are.
constexpr uint32_t tag_count_shift = 32;

}  // namespace

Result<std::unique_ptr<Pager>> Pager::start(const PagerOptions& options) {
  WP_ASSERT(options.window_bytes >= window_bytes_min && options.telemetry != nullptr);
  WP_ASSERT(is_chunk_size(options.chunk_bytes));
  const auto window_chunks = static_cast<uint32_t>(options.window_bytes / options.chunk_bytes);
  std::unique_ptr<Pager> it(new Pager(options, window_chunks));
  auto thread = start_thread_that_opens(
      "wp-pager", [it = it.get()](std::promise<Status>& opened) { it->run(opened); });
  if (!thread) return forward_error(std::move(thread));
  it->thread_ = std::move(*thread);
  return it;
}

Pager::Pager(const PagerOptions& options, uint32_t window_chunks)
    : options_(options),
      chunk_bytes_(options.chunk_bytes),
      telemetry_(*options.telemetry),
      window_chunks_max_(
          std::max(window_chunks, static_cast<uint32_t>(options.window_bytes_max / chunk_bytes_))),
      read_chunks_max_(window::chunks_together(window::read_bytes_max, chunk_bytes_)),
      move_chunks_max_(window::chunks_together(window::move_bytes_max, chunk_bytes_)),
      table_(window_chunks),
      window_chunks_(window_chunks),
      window_chunks_there_(window_chunks),
      window_chunks_wanted_(window_chunks) {}

// ---- The pager's thread ----

void Pager::run(std::promise<Status>& opened) {
  // Without a descriptor table of its own the pager works, but an engine could close its
  // descriptors.
  if (!options_.serves_guests && unshare(CLONE_FILES) != 0) {
    notice(
        "unshare(CLONE_FILES) is refused here: an engine that closes all descriptors will be "
        "stopped by weightpager's checks");
  }
  // Serving a fault takes microseconds and lets an engine thread go on; it should not wait for a
  // turn.
  thread_id_ = static_cast<int>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, static_cast<id_t>(thread_id_), -10);
  Status outcome = open_everything();
  const bool is_fine = outcome.has_value();
  opened.set_value(std::move(outcome));
  if (is_fine) serve();
  // These descriptors exist in this thread's table only.
  reader_.reset();
  mapper_.reset();
  files_.clear();
  module_.reset();
  headroom_.reset();
  page_map_.reset();
  guests_.clear();
  own_.reset();
  // Last, because their threads may be ringing: with the userfaultfd gone nobody waits at the
  // doorbell.
  pool_.reset();
  judge_.reset();
  watch_ = {};
  process_status_ = {};
}

Status Pager::open_everything() {
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return forward_error(std::move(uffd));
  own_.emplace(std::move(*uffd));
  is_user_mode_only_ = own_->uffd().is_user_mode_only();
  if (is_user_mode_only_) {
    notice(
        "no right to serve faults inside system calls: weights that are written or sent are copied "
        "first, and rarer calls on them (sendmsg, vmsplice, ioctl) fail with EFAULT where they are "
        "not resident. To mend it: setfacl -m u:$USER:rw /dev/userfaultfd");
  }

  auto mapper =
      window::choose_mapper(options_.mapper, *own_, chunk_bytes_, options_.expects_writable);
  if (!mapper) return forward_error(std::move(mapper));
  mapper_ = std::move(*mapper);
  if (options_.mapper == "auto" && !mapper_->keeps_slot()) {
    notice("this kernel has no UFFDIO_MOVE (Linux 6.8): chunks are copied, at about 0.6 ms each");
  }
  WP_ASSERT(!options_.serves_guests || shares_memory());

  if (mapper_->needs_module()) {
    auto window = window::ModuleWindow::create(window_chunks_max_, chunk_bytes_);
    if (!window) return forward_error(std::move(window));
    module_ = std::move(*window);
  }
  if (shares_memory()) {
    page_map_.emplace();
  } else {
    const window::SlotPoolOptions pool_options{window_chunks_, options_.before_memory};
    auto pool = window::SlotPool::create(window_chunks_max_, chunk_bytes_, pool_options);
    if (!pool && window_chunks_max_ > window_chunks_) {
      window_chunks_max_ = window_chunks_;
      pool = window::SlotPool::create(window_chunks_max_, chunk_bytes_, pool_options);
    }
    if (!pool) return forward_error(std::move(pool));
    pool_ = std::move(*pool);
  }
  emptied_slots_.reserve(window_chunks_max_);
  // A part of a huge page cannot go before the page is split; and moving one is cheap.
  if (mapper_->registers_slots() && chunk_bytes_ < huge_page_bytes) {
    tripwires_.emplace(std::min(tripwires_max, window_chunks_max_));
  }
  fit_table_to_window();

  // Requests to the device times their size, in chunks.
  const uint64_t in_flight_bytes =
      uint64_t{options_.device.queue_depth} * options_.device.read_bytes;
  const uint32_t prefetch_reads_max =
      policy::reads_ahead_max(in_flight_bytes, chunk_bytes_, window_chunks_);
  if (auto known = policy::check_policy(options_.policy, true); !known) return known;
  policy_settings_ = {.chunk_bytes = chunk_bytes_,
                      .reads_max = prefetch_reads_max,
                      .evictions_max = move_chunks_max_};
  const bool is_adaptive = options_.policy == policy::adaptive_policy;
  make_policy(is_adaptive ? policy::default_policy : std::string_view(options_.policy));
  if (is_adaptive && can_adapt()) begin_adapting(policy::default_policy);

  if (auto done = doorbell_.hang(own_->uffd()); !done) return done;

  io::ReaderOptions reader_options;
  reader_options.watched_fd = own_->uffd().fd();
  if (options_.serves_guests || module_ != nullptr) {
    watch_ = OwnedFd(epoll_create1(EPOLL_CLOEXEC));
    if (auto done = watch_faults(own_->uffd().fd()); !done) return done;
    if (module_ != nullptr) {
      if (auto done = watch_faults(module_->fd()); !done) return done;
    }
    reader_options.watched_fd = watch_.get();
  }
  reads_max_ = prefetch_reads_max + policy::demand_reads_max;
  // And one that is put together; should all fail, their chunks are read again one by one.
  reader_options.reads_max = (reads_max_ + 1) * read_chunks_max_;
  reader_options.read_bytes_max = static_cast<uint32_t>(read_chunks_max_ * chunk_bytes_);
  reader_options.device_read_bytes = options_.device.read_bytes;
  auto reader = options_.open_reader ? options_.open_reader(reader_options)
                                     : io::open_best_reader(reader_options);
  if (!reader) return forward_error(std::move(reader));
  reader_ = std::move(*reader);

  if (options_.gets_memory_first && pool_ != nullptr) get_all_memory();

  record_ = options_.touch_record;
  if (record_ != nullptr) record_->set_chunk_bytes(chunk_bytes_);
  recorded_.assign(std::min<uint64_t>(recorded_bytes / chunk_bytes_, window_chunks_ / 4),
                   window::no_chunk);
  if (options_.follows_memory_limit) headroom_.emplace();
  process_status_ = OwnedFd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  std::snprintf(telemetry_.mapper, sizeof telemetry_.mapper, "%s", mapper_->name());
  std::snprintf(telemetry_.reader, sizeof telemetry_.reader, "%s", reader_->name());
  set(telemetry_.chunk_bytes, chunk_bytes_);
  set(telemetry_.window_bytes, uint64_t{window_chunks_} * chunk_bytes_);
  return {};
}

void Pager::serve() {
  while (!is_stopping_) {
    // 1. Sleep until a read is finished, a thread faults, or somebody rings.
    const io::Wakeup wakeup = reader_->wait(sleep_max_ns());
    now_ns_ = telemetry::monotonic_ns();
    policy_->on_time(now_ns_);

    // 2. What was read is ready; what is waited for is mapped, and its toucher runs on.
    take_reads(wakeup);

    // 3. Faults: ready chunks are mapped at once, for the others the policy learns of the touch.
    if (wakeup.watched_fd_readable) take_all_faults();

    // 4. What engine threads ask for: regions, advice.
    take_commands();

    // 5. Chunks that could not be mapped because the kernel still held their pages.
    retry_held_chunks();

    // 6. While the window fills: memory that has arrived behind more slots.
    take_new_slots();

    // 7. Less memory than the window was meant to have, or more again.
    if (headroom_ && now_ns_ - headroom_seen_ns_ >= headroom_interval_ns) follow_memory_limit();

    // 8. Threads wait, and nothing came for a while: what is under way may never end. (Memory
    // that is being made does come.)
    const bool is_in_vain = wakeup.completions.empty() && !wakeup.watched_fd_readable;
    const bool are_waiting = waiting_chunks_ > 0 && held_.empty() && !table_.is_slot_coming();
    if (is_in_vain && are_waiting) policy_->on_standstill();

    // 9. Now and then: would another policy serve the engine better?
    if (adaptation_) adapt();

    // 10. Evict, hold and read what the policy wants, until it has no more wishes.
    carry_out_policy();

    // 11. Keep the counters.
    account();
  }
}

// Without an end (or until memory is to be looked at), unless the kernel has to be asked again for
// chunks whose pages it held, or threads wait: then it may be that nothing under way helps them.
int64_t Pager::sleep_max_ns() const {
  if (!held_.empty() || is_hiding()) return held_retry_ns;
  if (waiting_chunks_ > 0) {
    return reader_->reads_in_flight() > 0 ? late_read_ns : standstill_retry_ns;
  }
  return headroom_ && !regions_.empty() ? static_cast<int64_t>(headroom_interval_ns) : -1;
}

void Pager::take_reads(const io::Wakeup& wakeup) {
  Run wanted;
  for (const io::Completion& completion : wakeup.completions) {
    const Run read{static_cast<ChunkId>(completion.tag),
                   static_cast<uint32_t>(completion.tag >> tag_count_shift)};
    probes::read_end(read.first, read.count, completion.length_bytes, completion.error_number);
    add(telemetry_.read_bytes, completion.length_bytes);
    telemetry_.read_latency_ns.add(now_ns_ - std::min(now_ns_, waiting_[read.first].read_ns));
    note(EventKind::arrive, read.first, read.count);
    // An error stays where it is: the others' bytes may be fine.
    if (completion.error_number != 0 && read.count > 1) {
      for (uint32_t i = 0; i < read.count; ++i) start_reader({read.first + i, 1});
      continue;
    }
    for (uint32_t i = 0; i < read.count; ++i) {
      const uint64_t begin_bytes = i * chunk_bytes_;
      const uint64_t arrived_bytes = std::min(
          std::max<uint64_t>(completion.length_bytes, begin_bytes) - begin_bytes, chunk_bytes_);
      const ChunkId chunk = read.first + i;
      if (!take_chunk(chunk, completion.error_number, arrived_bytes)) continue;
      if (!goes_along(wanted, chunk, move_chunks_max_)) {
        map(wanted);
        wanted = {chunk, 0};
      }
      ++wanted.count;
    }
  }
  map(wanted);
}

// reading → ready. Returns whether it is to be mapped.
bool Pager::take_chunk(ChunkId chunk, int error_number, uint64_t arrived_bytes) {
  ServedFile& served = owner(chunk);
  const uint64_t expected_bytes = served.bytes_of(chunk);
  if (waiting_[chunk].is_doomed) {
    waiting_[chunk].is_doomed = false;
    table_.finish_read(chunk);
    release(chunk);
    close_idle_files();
    return false;
  }
  if (error_number != 0) {
    fail_chunk(chunk, "reading the model file failed", error_number);
    return false;
  }
  if (arrived_bytes < expected_bytes) {
    const char* const what = "the model file became shorter while it was in use";
    if (!ends_there(served, chunk, arrived_bytes)) {
      fail_chunk(chunk, what, EIO);
      return false;
    }
    report_failure(served, served.offset_of(chunk) + arrived_bytes,
                   served.offset_of(chunk) + expected_bytes, what, EIO);
    seal_from(chunk, static_cast<uint32_t>(round_up(arrived_bytes, os_page_bytes) / os_page_bytes));
  }
  // The slot held another chunk before: behind the file's end mmap shows zeros.
  if (arrived_bytes < chunk_bytes_) {
    std::memset(memory_of(chunk) + arrived_bytes, 0, chunk_bytes_ - arrived_bytes);
  }
  if (!served.file.is_direct()) {
    kernel::fadvise(served.file.fd(), static_cast<off_t>(served.offset_of(chunk)),
                    static_cast<off_t>(chunk_bytes_), POSIX_FADV_DONTNEED);
  }
  if (shares_memory()) served.memory->finish_chunk(served.offset_of(chunk));
  table_.finish_read(chunk);
  const bool wants_map = policy_->on_ready(chunk) && record_ == nullptr;
  return wants_map || waiting_[chunk].is_waited_for;
}

// Whether the file now ends inside the chunk, and the read came as far as that. Otherwise what is
// missing is no file's end, and nothing may be shown in its place.
bool Pager::ends_there(const ServedFile& served, ChunkId chunk, uint64_t length_bytes) const {
  struct stat facts;
  if (length_bytes == 0 || fstat(served.file.fd(), &facts) != 0) return false;
  return static_cast<uint64_t>(facts.st_size) == served.offset_of(chunk) + length_bytes;
}

Status Pager::watch_faults(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(watch_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return fail(std::string("watching for faults: ") + std::strerror(errno), "", errno);
}

void Pager::take_all_faults() {
  take_faults(*own_);
  for (const auto& guest : guests_) take_faults(*guest);
  if (module_ != nullptr) take_touches();
}

// Of the kernel module's memory, which knows chunks and not who touches them where.
void Pager::take_touches() {
  while (const auto touch = module_->next_touch()) {
    const auto served = std::find_if(files_.begin(), files_.end(), [&](const auto& it) {
      return window::ModuleWindow::number_of(*it->memory) == touch->memory;
    });
    // Gone with its last region, and whoever waits with it. (Another may have its number by now.)
    const auto at = static_cast<uint32_t>(touch->offset_bytes / chunk_bytes_);
    if (served == files_.end() || at >= (*served)->chunks) continue;
    const ChunkId chunk = (*served)->first_chunk + at;
    // It failed before the toucher came, who has to be told so.
    if (table_.state(chunk) == ChunkState::failed) {
      (*served)->memory->fail_chunk((*served)->offset_of(chunk));
      continue;
    }
    (*served)->for_each_view(
        chunk, [](Region& region, uint32_t index) { region.notes(index).is_waited_for = true; });
    // Of its address no more is known than where in the file it is.
    take_touch(chunk, {.address = touch->offset_bytes, .thread_id = touch->thread_id});
  }
}

void Pager::take_faults(AddressSpace& space) {
  std::array<fault::Fault, 64> faults;
  for (;;) {
    const size_t count = space.uffd().read_faults(faults);
    for (size_t i = 0; i < count; ++i) take_fault(space, faults[i]);
    if (count < faults.size()) return;
  }
}

void Pager::take_fault(AddressSpace& space, const fault::Fault& fault) {
  if (space.is_own() && doorbell_.owns(fault.address)) {
    is_rung_ = true;
    return doorbell_.answer(space.uffd(), fault.address);
  }
  const Place place = find(space, fault.address);
  // Not (or no longer) the pager's page: whoever touched it may go on.
  if (place.region == nullptr) return wake_page(space, fault.address);
  Region& region = *place.region;
  ServedFile& served = *place.served;
  const uint32_t index = region.chunk_index(fault.address);
  Region::Notes& notes = region.notes(index);
  if (fault.is_write_to_protected && notes.is_placed)
    return take_write(served, region, fault.address);

  const ChunkId chunk = served.chunk_of(region, index);
  const ChunkState state = table_.state(chunk);
  // A view can lose pages of a chunk that it shows: by MADV_DONTNEED, or by the first write, which
  // splits a huge page's entry.
  if (notes.is_placed && shares_memory()) return show_again(region, index);
  // An old message: the chunk came (or was given up) after it was sent.
  const bool is_there = notes.is_placed && !Tripwires::is_tripped_by(region, index, fault.address);
  if (is_there || state == ChunkState::failed) return wake_page(space, fault.address);
  // Every thread that touches the chunk sends a message, and one more after each signal.
  if (notes.is_waited_for) return;
  notes.is_waited_for = true;
  served.favoured = &region;
  take_touch(chunk, fault);
}

// Somebody stands still at a chunk.
void Pager::take_touch(ChunkId chunk, const fault::Fault& fault) {
  const ChunkState state = table_.state(chunk);
  if (waiting_[chunk].is_waited_for) return;
  // By now this turn may have shown the toucher another chunk: it came here after that.
  now_ns_ = telemetry::monotonic_ns();
  waiting_[chunk].is_waited_for = true;
  waiting_[chunk].touched_in = state;
  waiting_[chunk].touched_ns = now_ns_;
  if (waiting_chunks_++ == 0) stalled_since_ns_ = stall_shared_out_ns_ = now_ns_;
  set(telemetry_.cursor_chunk, chunk);
  if (events_ != nullptr) {
    events_->add({.time_ns = now_ns_,
                  .chunk = chunk,
                  .thread = fault.thread_id,
                  .kind = EventKind::touch,
                  .state = static_cast<uint8_t>(state)});
  }
  set(telemetry_.last_event_ns, now_ns_);
  add(state == ChunkState::absent    ? telemetry_.faults_demand
      : state == ChunkState::reading ? telemetry_.faults_late
                                     : telemetry_.faults_tripwire,
      1);
  probes::fault(chunk, static_cast<uint32_t>(state), fault.address, waiting_chunks_);
  const auto offset_bytes = static_cast<uint32_t>(fault.address % chunk_bytes_);
  if (record_ != nullptr) record_touch(chunk, offset_bytes);
  policy_->on_touch(chunk, offset_bytes);
  if (state == ChunkState::ready || (state == ChunkState::mapped && shares_memory())) {
    map(chunk);
  } else if (state == ChunkState::mapped) {
    // It lies in another region of the same file, where somebody may just be about to use it.
    held_.push_back(chunk);
  }
}

// The engine writes to a chunk. In a writable region its pages are the engine's own from now on, as
// they would be with mmap. In any other region the thread gets its SIGSEGV, as with mmap.
void Pager::take_write(ServedFile& served, Region& region, uintptr_t touched) {
  const uint32_t index = region.chunk_index(touched);
  Region::Notes& notes = region.notes(index);
  auto* const page = reinterpret_cast<std::byte*>(round_down(touched, os_page_bytes));
  if (!region.extent().is_writable && notes.is_divided) {
    // Only the page: another part may have been taken from the engine altogether.
    kernel::mprotect(page, os_page_bytes, PROT_READ);
    return region.space().uffd().wake(page, os_page_bytes);
  }
  if (!region.extent().is_writable) {
    notes.is_write_refused = true;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      kernel::mprotect(address, length_bytes, PROT_READ);
      region.space().uffd().wake(address, length_bytes);
    });
    return;
  }
  uint64_t written_bytes = 0;
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    // A child process inherits what was written; what was not it maps from the file.
    kernel::madvise(address, length_bytes, MADV_DOFORK);
    region.space().uffd().protect(address, length_bytes, false);
    written_bytes += length_bytes;
  });
  add(telemetry_.written_bytes, written_bytes);
  region.drop_pages(index, 0, static_cast<uint32_t>(region.pages_per_chunk()));
  notes.is_placed = false;
  notes.is_written = true;
  const ChunkId chunk = served.chunk_of(region, index);
  release_if_nowhere(chunk);
  is_order_stale_ = true;
}

// The chunk that was touched longest ago is taken out of the engine's sight, to show its next
// touch.
void Pager::record_touch(ChunkId chunk, uint32_t offset_bytes) {
  record_->add_touch(chunk, offset_bytes, now_ns_);
  const ChunkId oldest = std::exchange(recorded_[recorded_next_], chunk);
  recorded_next_ = (recorded_next_ + 1) % recorded_.size();
  if (oldest != window::no_chunk && oldest != chunk) take_out_of_sight(oldest, false);
}

// mapped → ready, where that is possible: the next touch will be noticed. Of a chunk that is used
// whole one page will do.
bool Pager::take_out_of_sight(ChunkId chunk, bool is_used_whole) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  const bool can_be_held = table_.state(chunk) == ChunkState::mapped &&
                           table_.slot(chunk) != window::no_slot && !waiting_[chunk].is_waited_for;
  if (!can_be_held) return false;
  const bool is_tripped = is_used_whole && set_tripwire(chunk);
  if (!is_tripped && !take_out(chunk)) return false;
  table_.hold(chunk);
  account_take_out(1, began_ns);
  return true;
}

bool Pager::set_tripwire(ChunkId chunk) {
  Region* const home = tripwires_ ? moves_to(chunk) : nullptr;
  if (home == nullptr) return false;
  const uint32_t index = owner(chunk).index_in(*home, chunk);
  return home->notes(index).is_placed && tripwires_->set(*home, index);
}

// The region that lacks a page of the chunk, or nullptr.
Region* Pager::tripped_in(ChunkId chunk) const {
  Region* found = nullptr;
  if (!tripwires_) return found;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    if (Tripwires::is_set(region, index)) found = &region;
  });
  return found;
}

// ready → mapped, if the chunk is there but for a page. False: that page cannot come back now.
bool Pager::take_tripwire_back(ChunkId chunk) {
  Region* const region = tripped_in(chunk);
  if (region == nullptr) return true;
  const uint32_t index = owner(chunk).index_in(*region, chunk);
  if (tripwires_->take_back(*region, index) != Outcome::done) return false;
  table_.map(chunk, true);
  return true;
}

void Pager::retry_held_chunks() {
  const size_t count = held_.size();
  for (size_t i = 0; i < count; ++i) {
    const ChunkId chunk = held_.front();
    held_.erase(held_.begin());
    if (!waiting_[chunk].is_waited_for) continue;
    const ChunkState state = table_.state(chunk);
    if (state == ChunkState::mapped && !shares_memory()) {
      move_to_waiter(chunk);
    } else if (state == ChunkState::mapped || state == ChunkState::ready) {
      map(chunk);
    }
  }
}

void Pager::take_new_slots() {
  if (pool_ == nullptr) return ask_for_slots();
  const uint32_t populated = pool_->populated();
  if (populated > slots_taken_) {
    prepare_slots(slots_taken_, populated - slots_taken_);
    for (; slots_taken_ < populated; ++slots_taken_) table_.add_slot(slots_taken_);
    trim_slots();
  }
  if (!regions_.empty()) ask_for_slots();
}

void Pager::prepare_slots(window::SlotId first, uint32_t count) {
  auto prepared =
      mapper_->prepare_slots(own_->uffd(), pool_->address(first), uint64_t{count} * chunk_bytes_);
  if (prepared) return;
  report_error(prepared.error().message);
  std::abort();
}

// The window's memory is what chunks hold plus free slots. While less than the window is in use,
// a few free slots are kept ready: emptied ones are filled again, others are made by the pool.
// (Shared memory comes as it is read into.)
void Pager::ask_for_slots() {
  uint32_t in_use = table_.resident() + table_.free_slots();
  if (pool_ == nullptr) {
    for (; in_use < window_chunks_; ++in_use) table_.add_slot(take_permit());
    return grow_to(in_use);
  }
  const auto slots_ahead = static_cast<uint32_t>(bytes_ahead / chunk_bytes_);
  if (table_.free_slots() >= slots_ahead || in_use >= window_chunks_) {
    grow_to(in_use);
  } else if (!emptied_slots_.empty()) {
    refill_slots(window_chunks_ - in_use);
  } else {
    pool_->want(
        slots_taken_ + std::min(slots_ahead, window_chunks_ - in_use),
        [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); }, &doorbell_);
  }
  table_.expect_slots(pool_->wanted() > slots_taken_);
}

// A window is made larger as its memory comes. Until then the policy gets along with the window
// that is there, as it did before: nobody waits for memory that may take seconds.
void Pager::grow_to(uint32_t chunks) {
  chunks = std::min(chunks, window_chunks_);
  if (chunks <= window_chunks_there_) return;
  window_chunks_there_ = chunks;
  fit_table_to_window();
  account_parts();
}

void Pager::get_all_memory() {
  pool_->want(
      window_chunks_, [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); }, &doorbell_);
  while (pool_->populated() < window_chunks_) {
    std::this_thread::sleep_for(memory_pause);
    // Who made some rings, and stands still until that was heard.
    take_faults(*own_);
  }
}

// A slot without memory of its own: one that was given back, or one more.
window::SlotId Pager::take_permit() {
  if (emptied_slots_.empty()) return slots_taken_++;
  const window::SlotId slot = emptied_slots_.back();
  emptied_slots_.pop_back();
  return slot;
}

void Pager::refill_slots(uint32_t slots_max) {
  slots_max = std::min(slots_max, static_cast<uint32_t>(refill_bytes / chunk_bytes_));
  for (; slots_max > 0 && !emptied_slots_.empty(); --slots_max) {
    const window::SlotId slot = emptied_slots_.back();
    if (slots_stay_registered()) {
      // Out of memory: there may be some at the next look.
      if (own_->uffd().copy(pool_->address(slot), no_bytes, chunk_bytes_) != Outcome::done) return;
    } else {
      pool_->refill(slot);
      prepare_slots(slot, 1);
    }
    emptied_slots_.pop_back();
    table_.add_slot(slot);
  }
}

// A slot that is registered gets memory by a copy, into small pages. One that is not is a mapping
// of its own for the kernel, and of small ones there may be more than it allows (vm.max_map_count).
bool Pager::slots_stay_registered() const {
  return mapper_->registers_slots() && chunk_bytes_ < huge_page_bytes;
}

// A chunk that was copied into a region leaves its slot behind: memory beyond the window goes back.
void Pager::trim_slots() {
  while (table_.free_slots() > 0 && table_.resident() + table_.free_slots() > window_chunks_) {
    const window::SlotId slot = table_.remove_slot();
    emptied_slots_.push_back(slot);
    if (module_ != nullptr) module_->empty(slot);
    if (pool_ == nullptr) continue;
    if (!slots_stay_registered()) {
      own_->uffd().unregister_range(pool_->address(slot), chunk_bytes_);
    }
    pool_->empty(slot);
  }
}

void Pager::set_window(uint32_t chunks) {
  window_chunks_ = chunks;
  window_chunks_there_ = std::min(window_chunks_there_, chunks);
  set(telemetry_.window_bytes, uint64_t{chunks} * chunk_bytes_);
  fit_table_to_window();
  account_parts();
  trim_slots();
}

// How the policy divides the window.
void Pager::account_parts() {
  set(telemetry_.ring_bytes, uint64_t{policy_->ring_chunks()} * chunk_bytes_);
  set(telemetry_.pinned_bytes, uint64_t{policy_->pinned_chunks()} * chunk_bytes_);
}

void Pager::follow_memory_limit() {
  headroom_seen_ns_ = now_ns_;
  const auto left_bytes = headroom_->bytes();
  if (!left_bytes) return;
  const uint32_t chunks = window::window_chunks_that_fit(window_chunks_, window_chunks_wanted_,
                                                         *left_bytes, chunk_bytes_);
  if (chunks == window_chunks_) return;
  if (chunks < window_chunks_ && !has_told_of_limit_) {
    has_told_of_limit_ = true;
    notice(
        "the memory limit is near (" + headroom_->source() + "): the window shrinks from " +
        format_size(uint64_t{window_chunks_} * chunk_bytes_) + " to " +
        format_size(uint64_t{chunks} * chunk_bytes_) +
        ", and grows again when there is room. To mend it: a smaller --window or a higher limit");
  }
  set_window(chunks);
}

// Where chunks are copied, some of the window must stay free for slots between disk and regions.
void Pager::fit_table_to_window() {
  const bool is_any_writable =
      std::any_of(regions_.begin(), regions_.end(),
                  [](const Place& place) { return place.region->extent().is_writable; });
  const bool copies = !mapper_->keeps_slot() || (is_any_writable && !shares_memory());
  const auto staging_slots_min = static_cast<uint32_t>(staging_bytes_min / chunk_bytes_);
  const auto staging_slots_max = static_cast<uint32_t>(staging_bytes_max / chunk_bytes_);
  const uint32_t staging_slots =
      copies ? std::clamp(window_chunks_there_ / 16, staging_slots_min, staging_slots_max) : 0;
  if (table_.resident_max() == window_chunks_there_ - staging_slots) return;
  table_.set_resident_max(window_chunks_there_ - staging_slots);
  if (policy_) policy_->on_resized();
  if (adaptation_) adaptation_->set_window(table_.resident_max(), progress());
}

// Where chunks that are shown cannot be hidden again, what the engine touches cannot be seen.
bool Pager::can_adapt() const { return options_.touch_record == nullptr && mapper_->keeps_slot(); }

void Pager::begin_adapting(std::string_view name) {
  adaptation_.emplace(name);
  adapts_.store(true, std::memory_order_relaxed);
  adaptation_->set_window(table_.resident_max(), {});
  if (judge_ == nullptr) judge_ = std::make_unique<shadow::JudgeThread>(options_.judge);
}

void Pager::end_adapting() {
  adaptation_.reset();
  adapts_.store(false, std::memory_order_relaxed);
}

// Carries out what adaptation_ decides.
void Pager::adapt() {
  const auto verdict = judge_->take();
  if (is_verdict_unwanted_) {
    // The judge looks at the sample until then.
    is_verdict_unwanted_ = !verdict.has_value();
    return;
  }
  if (verdict) {
    add(telemetry_.policies_judged, 1);
    adaptation_->on_verdict(*verdict);
  }
  switch (adaptation_->next(progress())) {
    case shadow::Adaptation::Step::none:
      break;
    case shadow::Adaptation::Step::sample:
      begin_sample();
      break;
    case shadow::Adaptation::Step::judge:
      record_ = nullptr;
      ask_judge();
      break;
    case shadow::Adaptation::Step::adopt:
      record_ = nullptr;
      adopt(adaptation_->policy());
      break;
    case shadow::Adaptation::Step::end_sample:
      record_ = nullptr;
      set(telemetry_.wait_ns, adaptation_->wait_ns());
      break;
  }
  for (uint32_t left = hidden_at_once; is_hiding() && left > 0; ++unhidden_) {
    if (take_out_of_sight(unhidden_, false)) --left;
  }
}

// A sample has begun, and some chunks that were shown before have yet to be hidden.
bool Pager::is_hiding() const {
  return record_ != nullptr && record_ == sample_.get() && unhidden_ < table_.chunks();
}

policy::PolicyStatistics Pager::statistics() const {
  policy::PolicyStatistics all = statistics_before_;
  return all += policy_->statistics();
}

shadow::Progress Pager::progress() const {
  const auto touches = record_ == nullptr ? 0 : static_cast<uint32_t>(record_->touches().size());
  return {.now_ns = now_ns_,
          .stall_ns = telemetry_.stall_ns,
          .chunks_read = telemetry_.read_bytes / chunk_bytes_,
          .passes = statistics().passes,
          .touches_sampled = touches};
}

// Without room for a record (address space may be limited) the policy stays as it is.
void Pager::begin_sample() {
  if (sample_ == nullptr) {
    auto created = telemetry::TouchRecord::create_private();
    if (!created) return end_adapting();
    sample_ = std::move(*created);
  }
  sample_->forget_touches();
  std::fill(recorded_.begin(), recorded_.end(), window::no_chunk);
  record_ = sample_.get();
  unhidden_ = 0;
}

// On paper the disk is as fast as it has been so far.
void Pager::ask_judge() {
  uint32_t shown_chunks = 0;
  shadow::Question question{
      .touches = sample_->touches(),
      .chunk_bytes = chunk_bytes_,
      .chunks = table_.chunks(),
      .order = find_order(shown_chunks),
      .situation = {},
      .refuted = {adaptation_->refuted().begin(), adaptation_->refuted().end()}};
  const auto busy_s = static_cast<double>(std::max<uint64_t>(telemetry_.read_busy_ns, 1)) / 1e9;
  question.situation.policy = adaptation_->policy();
  question.situation.window_chunks = table_.resident_max();
  question.situation.disk = {.name = "as measured",
                             .bytes_per_s = static_cast<double>(telemetry_.read_bytes) / busy_s,
                             .latency_ns = read_latency_ns};
  const bool is_asked =
      table_.resident_max() >= simulate::window_chunks_min &&
      judge_->ask(
          std::move(question), [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); },
          &doorbell_);
  if (!is_asked) adaptation_->on_verdict({.best = adaptation_->policy()});
}

// Another one, with what the window holds now.
void Pager::take_over(std::string_view name) {
  statistics_before_ += policy_->statistics();
  make_policy(name);
  policy_->on_time(now_ns_);
  tell_order();
  add(telemetry_.policy_changes, 1);
  set(telemetry_.policy_changed_ns, now_ns_);
}

void Pager::adopt(std::string_view name) {
  take_over(name);
  set(telemetry_.former_wait_ns, adaptation_->former_wait_ns());
  set(telemetry_.wait_ns, adaptation_->wait_ns());
  set(telemetry_.former_policy, policy::policy_number(adaptation_->former_policy()));
}

void Pager::make_policy(std::string_view name) {
  policy_ = policy::make_policy(name, table_, policy_settings_);
  set(telemetry_.policy, policy::policy_number(name));
}

void Pager::carry_out_policy() {
  bool has_wishes = true;
  while (has_wishes && reader_->reads_in_flight() < reads_max_) {
    const Action action = policy_->next();
    switch (action.kind) {
      case Action::Kind::none:
        has_wishes = false;
        break;
      case Action::Kind::read:
        start_read(action.chunk);
        break;
      case Action::Kind::evict:
        evict(Run{action.chunk, action.count});
        break;
      case Action::Kind::hold:
        hold(action.chunk, action.is_used_whole);
        break;
    }
  }
  hand_over_reads();
  if (tripwires_) tripwires_->hand_over();
}

void Pager::account() {
  const bool is_reading = reader_->reads_in_flight() > 0;
  if (is_reading && reading_since_ns_ == 0) {
    reading_since_ns_ = now_ns_;
  } else if (reading_since_ns_ != 0) {
    add(telemetry_.read_busy_ns, now_ns_ - reading_since_ns_);
    reading_since_ns_ = is_reading ? now_ns_ : 0;
  }
  const uint64_t resident_bytes = uint64_t{table_.resident()} * chunk_bytes_;
  set(telemetry_.resident_bytes, resident_bytes);
  raise_to(telemetry_.resident_bytes_max, resident_bytes);
  const policy::PolicyStatistics statistics = this->statistics();
  set(telemetry_.prefetch_hidden, statistics.prefetch_hidden);
  set(telemetry_.prefetch_unused, statistics.prefetch_unused);
  set(telemetry_.passes, statistics.passes);
  // What the engine wrote is not read ahead any more; told now and then, not at each write.
  if (is_order_stale_ && now_ns_ - order_told_ns_ > order_interval_ns) tell_order();
  set(telemetry_.expert_uses, statistics.expert_uses);
  set(telemetry_.expert_misses, statistics.expert_misses);
  set(telemetry_.expert_missing_bytes, statistics.expert_chunks_missing * chunk_bytes_);
  if (statistics.lessons != lessons_learned_) keep_lesson();
  if (now_ns_ - sampled_ns_ < sample_interval_ns || !process_status_.is_open()) return;

  sampled_ns_ = now_ns_;
  raise_to(telemetry_.engine_bytes_max, engine_bytes());
}

// What the policy learned is the next start's, should the process end any moment.
void Pager::keep_lesson() {
  lessons_learned_ = statistics().lessons;
  kept_lesson_.reset();
  const policy::Lesson lesson = policy_->lesson();
  if (options_.lesson_record == nullptr || lesson.is_empty()) return;
  const auto kept = lessons::kept_lesson(lesson, chunk_bytes_, numbered_files());
  if (options_.lesson_record->put(lessons::lesson_text(kept))) return;
  notice(
      "the engine's order has more parts than there is room for: it will not be kept for the "
      "next start");
}

// The process's memory beside the window: what the engine has on its own. Shared memory is told
// apart by the kernel, though not the window's from the engine's.
uint64_t Pager::engine_bytes() const {
  char text[4096] = {};
  if (kernel::pread(process_status_.get(), text, sizeof text - 1, 0) <= 0) return 0;
  const auto bytes_of = [&](const char* key) {
    const char* const line = std::strstr(text, key);
    return line == nullptr ? 0 : std::strtoull(line + std::strlen(key), nullptr, 10) * KiB;
  };
  // The kernel module's is as that of files, and there as often as it is mapped.
  if (module_ != nullptr) return bytes_of("\nRssAnon:");
  const uint64_t process_bytes = bytes_of("\nRssAnon:") + bytes_of("\nRssFile:");
  if (shares_memory()) return process_bytes;
  const uint64_t window_bytes =
      uint64_t{std::min(table_.resident() + table_.free_slots(), window_chunks_)} * chunk_bytes_;
  return process_bytes > window_bytes ? process_bytes - window_bytes : 0;
}

// ---- Chunks ----

// Regions by space and address; those of an engine with many small mappings are a thousand. One may
// begin in a hole that was unmapped in another, so the nearest need not be the right one.
Pager::Place Pager::find(const AddressSpace& space, uintptr_t address) const {
  auto it = std::upper_bound(regions_.begin(), regions_.end(), std::pair(&space, address),
                             [](const auto& at, const Place& place) { return at < place.key(); });
  while (it != regions_.begin() && &(--it)->region->space() == &space) {
    if (it->region->contains(address) && it->region->is_live_at(address)) return *it;
  }
  return {};
}

void Pager::wake_page(const AddressSpace& space, uintptr_t address) {
  space.uffd().wake(reinterpret_cast<void*>(round_down(address, os_page_bytes)), os_page_bytes);
}

std::byte* Pager::memory_of(ChunkId chunk) const {
  const ServedFile& served = owner(chunk);
  return shares_memory() ? served.memory->at(served.offset_of(chunk), table_.slot(chunk))
                         : pool_->address(table_.slot(chunk));
}

// absent → reading. What lies behind the chunks that are to be read already goes with them.
void Pager::start_read(ChunkId chunk) {
  table_.start_read(chunk);
  if (!goes_along(reads_to_start_, chunk, read_chunks_max_)) {
    hand_over_reads();
    reads_to_start_ = {chunk, 0};
  }
  ++reads_to_start_.count;
}

// Whether the chunk lies behind the last one of the run, in its file and in its slot, and the run
// may still become longer.
bool Pager::goes_along(const Run& run, ChunkId chunk, uint32_t count_max) const {
  return window::comes_next(run, chunk, count_max) && &owner(chunk) == &owner(run.first) &&
         memory_of(chunk) == memory_of(run.first) + run.count * chunk_bytes_;
}

void Pager::hand_over_reads() {
  if (reads_to_start_.count > 0) start_reader(reads_to_start_);
  reads_to_start_.count = 0;
}

void Pager::start_reader(const Run& run) {
  const ServedFile& served = owner(run.first);
  probes::read_begin(run.first, run.count, served.offset_of(run.first), run.count * chunk_bytes_);
  waiting_[run.first].read_ns = telemetry::monotonic_ns();
  note(EventKind::read, run.first, run.count);
  reader_->start({.tag = uint64_t{run.count} << tag_count_shift | run.first,
                  .fd = served.file.fd(),
                  .offset_bytes = served.offset_of(run.first),
                  .length_bytes = static_cast<uint32_t>(run.count * chunk_bytes_),
                  .buffer = memory_of(run.first)});
}

// The one region that shows the chunk, if its slot's memory itself goes there; else nullptr.
Region* Pager::moves_to(ChunkId chunk) const {
  Region* only = nullptr;
  bool is_moved = !shares_memory();
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    is_moved = is_moved && only == nullptr && mapper_->moves_into(region, index);
    only = &region;
  });
  return is_moved ? only : nullptr;
}

// Shows the chunk in one region, and wakes who waits for it there.
Outcome Pager::place(Region& region, uint32_t index, std::byte* bytes) {
  Region::Notes& notes = region.notes(index);
  if (notes.is_placed) return Outcome::done;
  const Outcome outcome = mapper_->show(region, {index}, bytes);
  notes.is_placed = outcome == Outcome::done;
  if (outcome == Outcome::done || region.space().is_own()) return outcome;
  // Whatever is wrong with a guest is no other's business.
  region.space().line().hang_up();
  return Outcome::done;
}

// A view has lost pages of a chunk that it shows.
void Pager::show_again(const Region& region, uint32_t index) {
  const Outcome outcome = window::show_live_pages(region, index);
  if (outcome == Outcome::done) return;
  if (!region.space().is_own()) return region.space().line().hang_up();
  // Out of memory for page tables, at worst: the toucher tries again.
  wake_live_pages(region, index);
}

// What one read has brought: in one step if that is possible.
void Pager::map(const Run& run) {
  if (run.count > 1 && show_at_once(run)) return;
  for (uint32_t i = 0; i < run.count; ++i) map(run.first + i);
}

// ready → mapped of all, or false, and nothing has happened.
bool Pager::show_at_once(const Run& run) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  Region* const home = moves_to(run.first);
  if (home == nullptr) return false;
  const uint32_t index = owner(run.first).index_in(*home, run.first);
  for (uint32_t i = 0; i < run.count; ++i) {
    if (moves_to(run.first + i) != home || home->notes(index + i).is_placed) return false;
  }
  if (mapper_->show(*home, {index, run.count}, memory_of(run.first)) != Outcome::done) return false;
  probes::map(run.first, run.count);
  note(EventKind::map, run.first, run.count);
  for (uint32_t i = 0; i < run.count; ++i) {
    home->notes(index + i).is_placed = true;
    table_.map(run.first + i, true);
    stop_waiting(run.first + i);
  }
  account_show(run.count, began_ns);
  return true;
}

// ready → mapped. Wakes who waits for the chunk.
void Pager::map(ChunkId chunk) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  Outcome outcome = Outcome::done;
  bool keeps_slot = true;
  if (tripped_in(chunk) != nullptr) {
    if (!take_tripwire_back(chunk)) outcome = Outcome::busy;
  } else {
    keeps_slot = shares_memory() ? show_shared(chunk, outcome) : show_own(chunk, outcome);
  }
  switch (outcome) {
    case Outcome::done:
      probes::map(chunk, 1);
      note(EventKind::map, chunk);
      if (table_.state(chunk) == ChunkState::ready) table_.map(chunk, keeps_slot);
      stop_waiting(chunk);
      if (!keeps_slot) trim_slots();
      return account_show(1, began_ns);
    case Outcome::busy:
      // Nobody waits: it stays ready, a tripwire. Somebody waits: again in a moment.
      if (waiting_[chunk].is_waited_for) held_.push_back(chunk);
      return;
    case Outcome::exists:
      return fail_chunk(chunk, "the address range of the model was written to by somebody else",
                        EEXIST);
    case Outcome::gone:
    case Outcome::failed:
      return fail_chunk(chunk, "the kernel refused to map it", errno);
  }
}

// In every edge, and as a whole in one region. Returns whether the chunk keeps its slot.
bool Pager::show_own(ChunkId chunk, Outcome& outcome) {
  const ServedFile& served = owner(chunk);
  Region* const home = served.home_of(chunk);
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    if (outcome != Outcome::done || region.edge(index) == nullptr) return;
    outcome = place(region, index, memory_of(chunk));
  });
  if (home == nullptr || outcome != Outcome::done) return false;
  const uint32_t index = served.index_in(*home, chunk);
  outcome = place(*home, index, memory_of(chunk));
  return mapper_->moves_into(*home, index);
}

// Wherever somebody waits for it; if nobody does, where the file was used last.
bool Pager::show_shared(ChunkId chunk, Outcome& outcome) {
  const ServedFile& served = owner(chunk);
  outcome = served.memory->show_chunk(served.offset_of(chunk), table_.slot(chunk));
  const bool is_waited_for = waiting_[chunk].is_waited_for && !served.memory->shows_chunks();
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    const bool is_wanted = is_waited_for
                               ? region.notes(index).is_waited_for
                               : &region == served.favoured || served.memory->shows_chunks();
    if (outcome == Outcome::done && is_wanted) outcome = place(region, index, memory_of(chunk));
  });
  return true;
}

// Takes the chunk out of every region. If it has a slot, its bytes are then there. False: not
// possible now, and the chunk is mapped as before (of shared memory, perhaps in fewer regions).
bool Pager::take_out(ChunkId chunk) {
  const ServedFile& served = owner(chunk);
  std::byte* const bytes = table_.slot(chunk) == window::no_slot ? nullptr : memory_of(chunk);
  bool is_out = true;
  // What was moved first: that is what the kernel may refuse.
  for (const bool is_moved : {true, false}) {
    served.for_each_view(chunk, [&](Region& region, uint32_t index) {
      Region::Notes& notes = region.notes(index);
      if (!is_out || !notes.is_placed || mapper_->moves_into(region, index) != is_moved) return;
      is_out = mapper_->hide(region, {index}, bytes) == Outcome::done;
      notes.is_placed = !is_out;
    });
  }
  if (is_out && shares_memory()) served.memory->hide_chunks(served.offset_of(chunk), 1);
  return is_out;
}

// ready or mapped → absent.
void Pager::release(ChunkId chunk) {
  give_back_memory(chunk);
  table_.release(chunk);
}

// Of shared memory the chunk's pages go, out of every region.
void Pager::give_back_memory(ChunkId chunk) {
  if (!shares_memory()) return;
  const ServedFile& served = owner(chunk);
  served.memory->give_back_chunk(served.offset_of(chunk));
  served.for_each_view(
      chunk, [](Region& region, uint32_t index) { region.notes(index).is_placed = false; });
}

void Pager::hold(ChunkId chunk, bool is_used_whole) {
  if (!take_out_of_sight(chunk, is_used_whole)) return policy_->on_refused(chunk);
  note(EventKind::hold, chunk);
}

// Somebody waits for a mapped chunk in another region than the one that it lies in. One that was
// copied there is copied on from there; what only lies in edges has to be read anew.
void Pager::move_to_waiter(ChunkId chunk) {
  ServedFile& served = owner(chunk);
  Region* const target = served.home_of(chunk);
  Region* source = nullptr;
  uint32_t source_index = 0;
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    // From where the engine may not look, copying does not work either.
    const Region::Notes& notes = region.notes(index);
    const bool is_copied_whole =
        notes.is_placed && region.edge(index) == nullptr && !notes.is_divided;
    if (!is_copied_whole || mapper_->moves_into(region, index)) return;
    source = &region;
    source_index = index;
  });
  const uint32_t index = target == nullptr ? 0 : served.index_in(*target, chunk);
  // Into a region that chunks are moved to they need a slot.
  const bool can_copy = source != nullptr && target != nullptr && target != source &&
                        !mapper_->moves_into(*target, index);
  if (can_copy && table_.slot(chunk) == window::no_slot) {
    const std::byte* const bytes = source->chunk_address(source_index);
    if (window::copy_live_pages(*target, index, bytes) != Outcome::done) {
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
  release(chunk);
  policy_->on_touch(chunk, policy::anywhere);
}

void Pager::evict(const Run& run) {
  for (uint32_t i = 0; i < run.count; ++i) take_tripwire_back(run.first + i);
  for (uint32_t done = 0; done < run.count;) {
    const uint64_t began_ns = telemetry::monotonic_ns();
    const bool is_shown = table_.state(run.first + done) == ChunkState::mapped;
    const uint32_t count = hide_at_once({run.first + done, run.count - done});
    for (uint32_t i = 0; i < count; ++i) evict(run.first + done + i);
    if (is_shown) account_take_out(count, began_ns);
    done += count;
  }
}

// Takes those out of their region, from the first on, for which one step will do, and says how many
// these are; at least one, which may still be there.
uint32_t Pager::hide_at_once(const Run& run) {
  if (shares_memory()) {
    uint32_t count = 0;
    while (count < run.count && !waiting_[run.first + count].is_waited_for) ++count;
    if (count < 2) return 1;
    owner(run.first).memory->hide_chunks(owner(run.first).offset_of(run.first), count);
    return count;
  }
  Region* const home = moves_to(run.first);
  if (home == nullptr) return 1;
  const uint32_t index = owner(run.first).index_in(*home, run.first);
  const uint32_t count = window::count_together(table_, run, [&](ChunkId chunk) {
    return table_.state(chunk) == ChunkState::mapped && !waiting_[chunk].is_waited_for &&
           moves_to(chunk) == home;
  });
  // The kernel may hold a page of one of them: then each goes, or stays, by itself.
  if (count == 1 || mapper_->hide(*home, {index, count}, memory_of(run.first)) != Outcome::done) {
    return 1;
  }
  for (uint32_t i = 0; i < count; ++i) home->notes(index + i).is_placed = false;
  return count;
}

void Pager::evict(ChunkId chunk) {
  const bool is_free = !waiting_[chunk].is_waited_for && (shares_memory() || take_out(chunk));
  if (!is_free) return policy_->on_refused(chunk);
  release(chunk);
  probes::evict(chunk);
  add(telemetry_.evictions, 1);
  note(EventKind::evict, chunk);
  trim_slots();
  if (table_.free_slots() == 0) ask_for_slots();
}

// The engine took the chunk's last pages away. Who waits for it in another region needs it anew.
void Pager::release_if_nowhere(ChunkId chunk) {
  if (table_.state(chunk) != ChunkState::mapped || owner(chunk).is_placed(chunk)) return;
  if (owner(chunk).is_kept) return table_.hold(chunk);
  release(chunk);
  if (waiting_[chunk].is_waited_for) policy_->on_touch(chunk, policy::anywhere);
}

// Who waits where the chunk now lies was woken by that; who waits for it in another region touches
// it again, and is then told apart from who just had it.
void Pager::stop_waiting(ChunkId chunk) {
  if (!waiting_[chunk].is_waited_for) return;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const bool must_retry = notes.is_waited_for && !notes.is_placed;
    notes.is_waited_for = false;
    if (must_retry) wake_live_pages(region, index);
  });
  waiting_[chunk].is_waited_for = false;
  account_wait(chunk);
}

// The wait is over. Of the time with threads waiting, what has passed since another chunk's wait
// ended goes to this chunk's layer.
void Pager::account_wait(ChunkId chunk) {
  const uint64_t now_ns = telemetry::monotonic_ns();
  const Waiting& waited = waiting_[chunk];
  Histogram& histogram = waited.touched_in == ChunkState::absent    ? telemetry_.wait_demand_ns
                         : waited.touched_in == ChunkState::reading ? telemetry_.wait_late_ns
                                                                    : telemetry_.wait_tripwire_ns;
  histogram.add(now_ns - waited.touched_ns);
  const ServedFile& served = owner(chunk);
  served.layers->add_stall(served.layers->layer_of(chunk - served.first_chunk),
                           now_ns - stall_shared_out_ns_);
  stall_shared_out_ns_ = now_ns;
  if (record_ != nullptr) record_->mark_served(chunk, now_ns);
  if (events_ != nullptr) {
    events_->add({.time_ns = now_ns, .chunk = chunk, .kind = EventKind::served});
  }
  if (--waiting_chunks_ == 0) add(telemetry_.stall_ns, now_ns - stalled_since_ns_);
  probes::served(chunk, waiting_chunks_);
}

void Pager::account_show(uint32_t chunks, uint64_t began_ns) {
  add(telemetry_.shows, 1);
  add(telemetry_.shown_chunks, chunks);
  add(telemetry_.show_ns, telemetry::monotonic_ns() - began_ns);
}

void Pager::account_take_out(uint32_t chunks, uint64_t began_ns) {
  add(telemetry_.take_outs, 1);
  add(telemetry_.taken_out_chunks, chunks);
  add(telemetry_.take_out_ns, telemetry::monotonic_ns() - began_ns);
}

void Pager::note(EventKind kind, ChunkId chunk, uint32_t count) {
  if (events_ == nullptr) return;
  events_->add(
      {.time_ns = telemetry::monotonic_ns(), .chunk = chunk, .count = count, .kind = kind});
}

void Pager::wake_live_pages(const Region& region, uint32_t index) {
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    region.space().uffd().wake(address, length_bytes);
  });
}

// Never zeros: whoever touches the chunk gets SIGBUS, now and later.
void Pager::fail_chunk(ChunkId chunk, const char* what, int error_number) {
  const ServedFile& served = owner(chunk);
  report_failure(served, served.offset_of(chunk), served.offset_of(chunk) + served.bytes_of(chunk),
                 what, error_number);
  if (table_.state(chunk) == ChunkState::mapped) table_.hold(chunk);
  give_back_memory(chunk);
  // First of all who waits with the process's memory locked, or nothing could be sealed.
  if (shares_memory()) served.memory->fail_chunk(served.offset_of(chunk));
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
  const uint32_t count = static_cast<uint32_t>(chunk_bytes_ / os_page_bytes) - first;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const std::byte* const from = region.chunk_address(index) + uint64_t{first} * os_page_bytes;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      std::byte* const end = address + length_bytes;
      if (end <= from) return;
      if (address < from) address += from - address;
      seal(region, address, static_cast<uint64_t>(end - address));
    });
    if (region.drop_sealed_pages(index, first, count))
      notes.is_placed = notes.is_waited_for = false;
  });
}

// Pages that the engine wrote are its own: they stay.
void Pager::seal(const Region& region, std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  // A guest wakes its threads itself, when it has sealed them.
  if (!region.space().is_own()) return region.space().line().seal(begin, length_bytes);
  if (shares_memory()) return seal_unwritten(region, begin, begin + length_bytes, *page_map_);
  Region::seal(address, length_bytes);
  region.space().uffd().wake(address, length_bytes);
}

}  // namespace weightpager
