#include "pager/pager.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"
#include "pager/io/open_reader.h"

namespace weightpager {

using policy::Action;
using telemetry::add;
using telemetry::raise_to;
using telemetry::set;
using window::Run;

namespace {

// The kernel lets go of a page that a read has just filled within microseconds.
constexpr int64_t held_retry_ns = 50'000;
constexpr int64_t standstill_retry_ns = 1'000'000;
// A disk that has not answered for so long may not answer at all; slow ones (an SD card: 20 MB/s)
// take about that for one chunk.
constexpr int64_t late_read_ns = 100'000'000;
// Of a chunk that is being recorded a touch counts once more when so much else was touched since.
constexpr uint64_t recorded_bytes = 32 * MiB;
constexpr uint64_t sample_interval_ns = 200'000'000;
// Memory limits and files are looked at as often.
constexpr uint64_t look_interval_ns = 50'000'000;
constexpr uint64_t order_interval_ns = 100'000'000;
// Experts of which one page is away, at once.
constexpr uint32_t tripwires_max = 4096;

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
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -10);
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
  // 1. Who hears of faults.
  if (auto opened = open_userfaultfd(); !opened) return opened;

  // 2. How chunks are shown, and the memory that they lie in.
  if (auto opened = open_mapper(); !opened) return opened;
  if (auto made = make_memory(); !made) return made;
  fit_table_to_window();

  // 3. What is to be read and to go.
  if (auto begun = begin_policy(); !begun) return begun;

  // 4. What wakes this thread: engine threads that ring, faults, reads that are finished.
  if (auto done = doorbell_.hang(own_->uffd()); !done) return done;
  if (auto opened = open_reader(); !opened) return opened;

  if (options_.gets_memory_first && pool_ != nullptr) get_all_memory();

  // 5. What others see of it.
  begin_record();
  if (options_.follows_memory_limit) headroom_.emplace();
  process_status_ = OwnedFd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  std::snprintf(telemetry_.mapper, sizeof telemetry_.mapper, "%s", mapper_->name());
  std::snprintf(telemetry_.reader, sizeof telemetry_.reader, "%s", reader_->name());
  set(telemetry_.chunk_bytes, chunk_bytes_);
  set(telemetry_.window_bytes, uint64_t{window_chunks_} * chunk_bytes_);
  return {};
}

Status Pager::open_userfaultfd() {
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
  return {};
}

Status Pager::open_mapper() {
  auto mapper =
      window::choose_mapper(options_.mapper, *own_, chunk_bytes_, options_.expects_writable);
  if (!mapper) return forward_error(std::move(mapper));
  mapper_ = std::move(*mapper);
  if (options_.mapper == "auto" && !mapper_->keeps_slot()) {
    notice("this kernel has no UFFDIO_MOVE (Linux 6.8): chunks are copied, at about 0.6 ms each");
  }
  WP_ASSERT(!options_.serves_guests || shares_memory());
  return {};
}

// Slots of our own, or what the module or the shared window has.
Status Pager::make_memory() {
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
  return {};
}

Status Pager::begin_policy() {
  if (auto known = policy::check_policy(options_.policy, true); !known) return known;
  // Requests to the device times their size, in chunks.
  const uint64_t in_flight_bytes =
      uint64_t{options_.device.queue_depth} * options_.device.read_bytes;
  policy_settings_ = {
      .chunk_bytes = chunk_bytes_,
      .reads_max = policy::reads_ahead_max(in_flight_bytes, chunk_bytes_, window_chunks_),
      .evictions_max = move_chunks_max_};
  const bool is_adaptive = options_.policy == policy::adaptive_policy;
  make_policy(is_adaptive ? policy::default_policy : std::string_view(options_.policy));
  if (is_adaptive && can_adapt()) begin_adapting(policy::default_policy);
  return {};
}

// A reader looks at one more descriptor: the userfaultfd, or an epoll's where there are several.
Status Pager::open_reader() {
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
  reads_max_ = policy_settings_.reads_max + policy::demand_reads_max;
  // And one that is put together; should all fail, their chunks are read again one by one.
  reader_options.reads_max = (reads_max_ + 1) * read_chunks_max_;
  reader_options.read_bytes_max = static_cast<uint32_t>(read_chunks_max_ * chunk_bytes_);
  reader_options.device_read_bytes = options_.device.read_bytes;
  auto reader = options_.open_reader ? options_.open_reader(reader_options)
                                     : io::open_best_reader(reader_options);
  if (!reader) return forward_error(std::move(reader));
  reader_ = std::move(*reader);
  return {};
}

void Pager::begin_record() {
  record_ = options_.touch_record;
  if (record_ != nullptr) record_->set_chunk_bytes(chunk_bytes_);
  recorded_.assign(std::min<uint64_t>(recorded_bytes / chunk_bytes_, window_chunks_ / 4),
                   window::no_chunk);
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
    if (headroom_ && now_ns_ - headroom_seen_ns_ >= look_interval_ns) follow_memory_limit();

    // 8. Files that were changed: what was read before goes.
    if (now_ns_ - files_seen_ns_ >= look_interval_ns) look_at_files();

    // 9. Threads wait, and nothing came for a while: what is under way may never end. (Memory
    // that is being made does come.)
    const bool is_in_vain = wakeup.completions.empty() && !wakeup.watched_fd_readable;
    const bool are_waiting = waiting_chunks_ > 0 && held_.empty() && !table_.is_slot_coming();
    if (is_in_vain && are_waiting) {
      policy_->on_standstill();
      tell_of_late_read();
    }

    // 10. Now and then: would another policy serve the engine better?
    if (adaptation_) adapt();

    // 11. Evict, hold and read what the policy wants, until it has no more wishes.
    carry_out_policy();

    // 12. Keep the counters.
    account();
  }
}

// Without an end (or until memory and files are to be looked at), unless the kernel has to be asked
// again for chunks whose pages it held, or threads wait: then it may be that nothing under way
// helps them.
int64_t Pager::sleep_max_ns() const {
  if (!held_.empty() || is_hiding()) return held_retry_ns;
  if (waiting_chunks_ > 0) {
    return reader_->reads_in_flight() > 0 ? late_read_ns : standstill_retry_ns;
  }
  return regions_.empty() ? -1 : static_cast<int64_t>(look_interval_ns);
}

// How the policy divides the window.
void Pager::account_parts() {
  set(telemetry_.ring_bytes, uint64_t{policy_->ring_chunks()} * chunk_bytes_);
  set(telemetry_.pinned_bytes, uint64_t{policy_->pinned_chunks()} * chunk_bytes_);
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
  // It may have become another one.
  if (std::strcmp(telemetry_.reader, reader_->name()) != 0) {
    std::snprintf(telemetry_.reader, sizeof telemetry_.reader, "%s", reader_->name());
  }
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

}  // namespace weightpager
