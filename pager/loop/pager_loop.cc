#include "pager/loop/pager_loop.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager {

using policy::Action;
using policy::ChunkId;
using telemetry::add;
using telemetry::raise_to;
using telemetry::set;
using window::ChunkState;
using window::Run;

namespace {

// The kernel lets go of a page that a read has just filled within microseconds.
constexpr int64_t retry_interval_ns = 50'000;
constexpr int64_t standstill_retry_ns = 1'000'000;
// A disk that has not answered for so long may not answer at all; slow ones (an SD card: 20 MB/s)
// take about that for one chunk.
constexpr int64_t standstill_read_ns = 100'000'000;
constexpr uint64_t sample_interval_ns = 200'000'000;
constexpr std::chrono::milliseconds memory_pause{1};

void look_at_home(const ServedFile& served, ChunkId chunk, ChunkView& view) {
  if (!served.is_spilled()) return;
  const spill::SpilledChunks& content = *served.spilled;
  const uint32_t index = chunk - served.first_chunk;
  view.home = content.home(index);
  if (view.home == spill::Home::zeros) return;
  view.lazy_file = content.file(index);
  view.offset_bytes = content.offset_bytes(index);
}

}  // namespace

PagerLoop::PagerLoop(const PagerOptions& options)
    : options_(options),
      telemetry_(*options.telemetry),
      table_(static_cast<uint32_t>(options.window_bytes / options.chunk_bytes)),
      files_(table_),
      waiters_(telemetry_),
      policy_({options_, table_, files_, waiters_, recorder_, doorbell_}),
      memory_(options_, table_, files_, policy_),
      parts_{table_, files_, waiters_, recorder_, policy_, memory_, spills_, workers_, telemetry_},
      chunks_(parts_),
      reads_(options_, parts_, chunks_),
      spilling_(options_, parts_, chunks_, reads_),
      faults_(parts_, chunks_, spaces_, doorbell_),
      regions_(options_, parts_, chunks_, reads_, spaces_) {}

// ---- Begin and end ----

void PagerLoop::run(std::promise<Status>& opened) {
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
  close_everything();
}

Status PagerLoop::open_everything() {
  // 1. Who hears of faults.
  if (auto opened = open_userfaultfd(); !opened) return opened;

  // 2. How chunks are shown, and the memory that they lie in.
  if (auto opened = memory_.open(spaces_.own(), doorbell_); !opened) return opened;
  if (auto opened = open_spilling(); !opened) return opened;

  // 3. What is to be read and to go.
  if (auto begun = begin_policy(); !begun) return begun;

  // 4. What wakes this thread: engine threads that ring, faults, reads that are finished.
  if (auto done = doorbell_.hang(spaces_.own().uffd()); !done) return done;
  if (auto opened = open_reads(); !opened) return opened;

  if (options_.gets_memory_first) get_all_memory();

  // 5. What others see of it.
  recorder_.begin(options_.touch_record, options_.chunk_bytes, memory_.chunks());
  if (options_.follows_memory_limit) memory_.begin_following_limit();
  process_status_ = OwnedFd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  std::snprintf(telemetry_.mapper, sizeof telemetry_.mapper, "%s", memory_.backing().name());
  std::snprintf(telemetry_.reader, sizeof telemetry_.reader, "%s", reads_.reader().name());
  set(telemetry_.chunk_bytes, options_.chunk_bytes);
  set(telemetry_.window_bytes, memory_.chunks() * options_.chunk_bytes);
  return {};
}

// Descriptors exist in this thread's table only.
void PagerLoop::close_everything() {
  workers_.close();
  reads_.close();
  files_.close();
  spills_.close();
  memory_.close_headroom();
  spaces_.close();
  // Last, because their threads may be ringing: with the userfaultfd gone nobody waits at the
  // doorbell.
  memory_.close();
  policy_.end();
  process_status_ = {};
}

Status PagerLoop::open_userfaultfd() {
  if (auto opened = spaces_.open(); !opened) return opened;
  is_user_mode_only_ = spaces_.own().uffd().is_user_mode_only();
  if (is_user_mode_only_) {
    notice(
        "no right to serve faults inside system calls: weights that are written or sent are copied "
        "first, and rarer calls on them (sendmsg, vmsplice, ioctl) fail with EFAULT where they are "
        "not resident. To mend it: setfacl -m u:$USER:rw /dev/userfaultfd");
  }
  return {};
}

Status PagerLoop::open_spilling() {
  if (options_.spill_folder.empty()) return {};
  if (!memory_.backing().can_spill()) {
    return fail(std::string("--spill: mapper ") + memory_.backing().name() +
                    " cannot take out what the engine has written",
                "leave out --mapper; Linux 6.8 and later can");
  }
  if (is_user_mode_only_) {
    return fail(
        "--spill: no right to serve faults inside system calls, which read files into memory",
        "setfacl -m u:$USER:rw /dev/userfaultfd, or sysctl vm.unprivileged_userfaultfd=1");
  }
  if (auto opened = workers_.open(); !opened) return opened;
  if (auto opened = spills_.open(options_.spill_folder, options_.chunk_bytes); !opened)
    return opened;
  if (options_.kept_folder.empty()) return {};
  const auto kept = spills_.kept().open(options_.kept_folder, options_.chunk_bytes);
  // The engine can do without.
  if (kept) return {};
  report_error(kept.error().message + "; nothing of this process is kept");
  notice("hint: " + kept.error().hint);
  return {};
}

Status PagerLoop::begin_policy() {
  // Requests to the device times their size, in chunks.
  const uint64_t in_flight_bytes =
      uint64_t{options_.device.queue_depth} * options_.device.read_bytes;
  const policy::Settings settings = {
      .chunk_bytes = options_.chunk_bytes,
      .reads_max = policy::reads_ahead_max(in_flight_bytes, options_.chunk_bytes, memory_.chunks()),
      .evictions_max = window::chunks_together(window::move_bytes_max, options_.chunk_bytes)};
  return policy_.begin(settings, memory_.backing().can_hide());
}

// A reader looks at one more descriptor: the userfaultfd, or an epoll's where there are several.
Status PagerLoop::open_reads() {
  const std::array more_fds = {memory_.backing().touch_fd(), workers_.fd(),
                               spills_.kept().done_fd()};
  const bool has_more =
      std::any_of(more_fds.begin(), more_fds.end(), [](int fd) { return fd >= 0; });
  if (options_.serves_guests || has_more) {
    if (auto done = spaces_.watch_several(); !done) return done;
  }
  for (const int fd : more_fds) {
    if (fd < 0) continue;
    if (auto done = spaces_.watch(fd); !done) return done;
  }
  return reads_.open(policy_.settings().reads_max, spaces_.watched_fd());
}

void PagerLoop::get_all_memory() {
  while (!memory_.backing().get_all_memory(memory_.chunks())) {
    std::this_thread::sleep_for(memory_pause);
    // Threads that made some ring, and stand still until that was heard.
    faults_.take_all();
  }
}

void PagerLoop::stop() {
  WP_ASSERT(files_.regions().empty());
  is_stopping_ = true;
}

void PagerLoop::note_start() {
  if (telemetry_.started_ns.load() != 0 || files_.regions().empty()) return;
  set(telemetry_.started_ns, now_ns_);
  set(telemetry_.engine_bytes_start, engine_bytes());
}

// ---- The loop ----

void PagerLoop::serve() {
  while (!is_stopping_) {
    // 1. Sleep until a read is finished, a thread faults, or somebody rings.
    const io::Wakeup wakeup = reads_.reader().wait(sleep_max_ns());
    now_ns_ = telemetry::monotonic_ns();
    policy_.set_time(now_ns_);
    policy_.policy().on_time(now_ns_);

    // 2. What was written is gone. What was read, or is zeros, is ready; what is waited for is
    // shown, and its toucher runs on. What was looked through goes, or is written first.
    take_worked(wakeup.watched_fd_readable);
    take_finished(spilling_.take_writes(wakeup.completions));
    reads_.take_zeros();

    // 3. Faults: ready chunks are shown at once, for the others the policy learns of the touch.
    if (wakeup.watched_fd_readable) faults_.take_all();

    // 4. What engine threads ask for: regions, advice.
    if (faults_.take_ring()) commands_.carry_out();

    // 5. Chunks that could not be shown because the kernel still held their pages.
    chunks_.retry();

    // 6. While the window fills: memory that has arrived behind more slots.
    memory_.take_new_slots();

    // 7. Less memory than the window was meant to have, or more again.
    memory_.follow_limit(now_ns_);

    // 8. Files that were changed: what was read before goes. A spill folder that was full.
    reads_.look_at_files(now_ns_);
    spilling_.look_for_room(now_ns_);

    // 9. Threads wait, and nothing came for a while: what is under way may never end.
    if (waits_in_vain(wakeup)) {
      policy_.policy().on_standstill();
      reads_.tell_of_hanging_read(now_ns_);
    }

    // 10. Now and then: would another policy serve the engine better?
    policy_.adapt();
    chunks_.hide_for_sample();

    // 11. Evict, hide and read what the policy wants, until it has no more wishes.
    carry_out_policy();

    // 12. Keep the counters.
    account();
  }
}

// Without an end (or until memory and files are to be looked at), unless the kernel has to be asked
// again for chunks whose pages it held, or threads wait: then it may be that nothing under way
// helps them.
int64_t PagerLoop::sleep_max_ns() const {
  if (reads_.has_zeros()) return 0;
  if (waiters_.is_any_to_retry() || recorder_.is_hiding(table_.chunks())) return retry_interval_ns;
  if (waiters_.chunks() > 0) {
    return in_flight() > 0 ? standstill_read_ns : standstill_retry_ns;
  }
  return files_.regions().empty() ? -1 : static_cast<int64_t>(look_interval_ns);
}

// Memory that is being made does come, and so do pages that the kernel holds.
bool PagerLoop::waits_in_vain(const io::Wakeup& wakeup) const {
  const bool has_come = !wakeup.completions.empty() || wakeup.watched_fd_readable;
  const bool will_come =
      waiters_.is_any_to_retry() || table_.is_slot_coming() || workers_.in_flight() > 0;
  return waiters_.chunks() > 0 && !has_come && !will_come;
}

// What threads may wait for comes first.
void PagerLoop::take_worked(bool is_told) {
  const std::span<const ContentWork> done = workers_.take_done(is_told);
  reads_.take_worked(done);
  spilling_.take_looked_through(done);
  spilling_.take_compared(spills_.kept().take_compared(is_told));
}

// Faults and other reads do not wait until all of it is shown.
void PagerLoop::take_finished(std::span<const io::Completion> finished) {
  while (!(finished = reads_.take_some(finished, now_ns_)).empty()) {
    faults_.take_all();
    carry_out_policy();
  }
}

void PagerLoop::carry_out_policy() {
  bool has_wishes = true;
  while (has_wishes && reads_.can_start() && !spilling_.is_forking()) {
    const Action action = policy_.policy().next();
    switch (action.kind) {
      case Action::Kind::none:
        has_wishes = false;
        break;
      case Action::Kind::read:
        reads_.start(action.chunk);
        break;
      case Action::Kind::evict:
        evict_run(Run{action.chunk, action.count});
        break;
      case Action::Kind::hide:
        if (chunks_.hide(action.chunk, action.is_used_whole)) {
          recorder_.note(telemetry::EventKind::hide, action.chunk);
        } else {
          policy_.policy().on_not_hidden(action.chunk);
        }
        break;
    }
  }
  reads_.hand_over();
  memory_.backing().flush_hidden();
}

void PagerLoop::evict_run(const Run& run) {
  if (files_.owner(run.first).is_spilled()) return spilling_.evict(run);
  chunks_.evict(run);
}

// ---- Counters ----

void PagerLoop::account() {
  const bool is_reading = reads_.reader().reads_in_flight() > 0;
  if (is_reading && reading_since_ns_ == 0) {
    reading_since_ns_ = now_ns_;
  } else if (reading_since_ns_ != 0) {
    add(telemetry_.read_busy_ns, now_ns_ - reading_since_ns_);
    reading_since_ns_ = is_reading ? now_ns_ : 0;
  }
  const uint64_t resident_bytes = table_.resident() * options_.chunk_bytes;
  set(telemetry_.resident_bytes, resident_bytes);
  raise_to(telemetry_.resident_bytes_max, resident_bytes);
  const policy::PolicyStatistics statistics = policy_.statistics();
  set(telemetry_.prefetch_hidden, statistics.prefetch_hidden);
  set(telemetry_.prefetch_unused, statistics.prefetch_unused);
  set(telemetry_.passes, statistics.passes);
  set(telemetry_.expert_uses, statistics.expert_uses);
  set(telemetry_.expert_misses, statistics.expert_misses);
  set(telemetry_.expert_missing_bytes, statistics.expert_chunks_missing * options_.chunk_bytes);
  policy_.tell_order_if_stale();
  policy_.account_parts_of_order();
  policy_.keep_learned_profile();
  // It may have become another one.
  const char* const reader = reads_.reader().name();
  if (std::strcmp(telemetry_.reader, reader) != 0) {
    std::snprintf(telemetry_.reader, sizeof telemetry_.reader, "%s", reader);
  }
  if (now_ns_ - sampled_ns_ < sample_interval_ns || !process_status_.is_open()) return;

  sampled_ns_ = now_ns_;
  raise_to(telemetry_.engine_bytes_max, engine_bytes());
}

// The process's memory beside the window: what the engine has on its own. Shared memory is told
// apart by the kernel, though not the window's from the engine's.
uint64_t PagerLoop::engine_bytes() const {
  char text[4096] = {};
  if (kernel::pread(process_status_.get(), text, sizeof text - 1, 0) <= 0) return 0;
  const auto bytes_of = [&](const char* key) {
    const char* const line = std::strstr(text, key);
    return line == nullptr ? 0 : std::strtoull(line + std::strlen(key), nullptr, 10) * KiB;
  };
  const window::ProcessMemory all{bytes_of("\nRssAnon:"), bytes_of("\nRssFile:")};
  return memory_.backing().engine_bytes(all, memory_.chunks());
}

// ---- What others may see of it, and change (pager/control) ----

size_t PagerLoop::look(std::span<FileView> views) const {
  const auto& files = files_.files();
  for (size_t i = 0; i < std::min(files.size(), views.size()); ++i) {
    views[i] = {files[i]->first_chunk, files[i]->chunks, files[i]->layers, files[i]->is_spilled(),
                files[i]->is_spilled() ? files[i]->spilled->blocks() : spill::BlocksInUse{}};
  }
  return files.size();
}

uint32_t PagerLoop::look(ChunkId first, std::span<ChunkView> states) const {
  const uint32_t chunks = table_.chunks();
  const size_t count = std::min<size_t>(states.size(), chunks - std::min(first, chunks));
  for (uint32_t i = 0; i < count; ++i) {
    const ChunkState state = table_.state(first + i);
    states[i] = {state == ChunkState::leaving ? ChunkState::ready : state,
                 policy_.policy().is_pinned(first + i)};
    if (files_.has_owner(first + i)) look_at_home(files_.owner(first + i), first + i, states[i]);
  }
  return chunks;
}

std::vector<std::string> PagerLoop::lazy_files() const {
  std::vector<std::string> names;
  for (const SpillStore::File& it : spills_.files()) names.push_back(it.name);
  return names;
}

uint64_t PagerLoop::resize(uint64_t window_bytes) {
  const uint64_t chunks = std::min<uint64_t>(window_bytes / options_.chunk_bytes, UINT32_MAX);
  return memory_.resize(static_cast<uint32_t>(chunks)) * options_.chunk_bytes;
}

// The policy learns of it as it learns of regions that go: by being told the order anew.
uint32_t PagerLoop::evict(std::span<const ChunkId> chunks) {
  uint32_t evicted = 0;
  for (const ChunkId chunk : chunks) {
    if (!files_.has_owner(chunk)) continue;
    const ChunkState state = table_.state(chunk);
    if (state != ChunkState::ready && state != ChunkState::mapped) continue;
    evict_run(Run{chunk, 1});
    if (!table_.is_resident(chunk)) ++evicted;
  }
  policy_.tell_order();
  return evicted;
}

uint32_t PagerLoop::drop() {
  std::vector<ChunkId> dropped;
  for (ChunkId chunk = 0; chunk < table_.chunks(); ++chunk) {
    if (!policy_.policy().is_pinned(chunk)) dropped.push_back(chunk);
  }
  return evict(dropped);
}

}  // namespace weightpager
