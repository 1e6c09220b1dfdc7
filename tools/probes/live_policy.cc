#include "tools/probes/live_policy.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "pager/base/anonymous_memory.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/pager.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::tools {
namespace {

using simulate::PassCounts;
using simulate::Touch;
using simulate::Trace;
using telemetry::Telemetry;

// The kernel would make shorter naps too long.
constexpr uint64_t nap_ns_min = 200'000;
constexpr uint64_t sector_bytes = 512;
// A pager that has read nothing for so long has nothing more to read.
constexpr std::chrono::milliseconds idle_time{20};

/// Sleeps instead of computing. If a sleep takes too long, the next ones are shorter.
class PretendedComputing {
 public:
  PretendedComputing() { prctl(PR_SET_TIMERSLACK, 1); }

  void compute(uint64_t ns) {
    owed_ns_ += static_cast<int64_t>(ns);
    if (ns == 0 || owed_ns_ <= 0) return;
    const uint64_t began_ns = telemetry::monotonic_ns();
    std::this_thread::sleep_for(std::chrono::nanoseconds(owed_ns_));
    owed_ns_ -= static_cast<int64_t>(telemetry::monotonic_ns() - began_ns);
  }

 private:
  int64_t owed_ns_ = 0;
};

/// Keeps this thread, and threads that it starts, on one processor while the object lives. The
/// engine sleeps instead of computing, so it needs no processor of its own. The kernel alone would
/// let engine and pager share a processor or not, by chance, and a fault would take 10 us or 50.
/// Threads that get memory for a window that grows may run anywhere, because they would keep that
/// one processor busy.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    is_set_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OnOneProcessor() {
    if (is_set_) sched_setaffinity(0, sizeof before_, &before_);
  }
  void release_memory_threads() const {
    if (!is_set_) return;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name != "wp-memory") continue;
      sched_setaffinity(std::stoi(task.path().filename()), sizeof before_, &before_);
    }
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;

 private:
  cpu_set_t before_;
  bool is_set_ = false;
};

/// The memory that a window will grow by; it is in use until the window grows.
Result<AnonymousMemory> memory_to_grow(const LiveOptions& options) {
  const uint64_t bytes =
      options.resize_bytes - std::min(options.resize_bytes, options.window_bytes);
  auto memory = AnonymousMemory::make(round_up(bytes, huge_page_bytes), "a window that grows",
                                      "choose a smaller window");
  if (!memory) return memory;
  for (uint64_t at = 0; at < bytes; at += os_page_bytes) *memory->at(at) = std::byte{1};
  return memory;
}

/// The bytes that all processes have read from the device so far; 0 if the kernel does not say.
uint64_t read_from_device_of(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return 0;
  std::ifstream file(
      fmt::format("/sys/dev/block/{}:{}/stat", major(facts.st_dev), minor(facts.st_dev)));
  uint64_t reads = 0;
  uint64_t merges = 0;
  uint64_t sectors = 0;
  file >> reads >> merges >> sectors;
  return sectors * sector_bytes;
}

uint64_t processor_time_ns() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

/// All counters at one moment.
struct Moment {
  explicit Moment(const Telemetry& telemetry)
      : now_ns(telemetry::monotonic_ns()),
        processor_ns(processor_time_ns()),
        read_bytes(telemetry.read_bytes),
        stall_ns(telemetry.stall_ns),
        demand(telemetry.faults_demand),
        late(telemetry.faults_late),
        tripwires(telemetry.faults_tripwire),
        shown{telemetry.shows, telemetry.shown_chunks, telemetry.show_ns},
        taken_out{telemetry.take_outs, telemetry.taken_out_chunks, telemetry.take_out_ns} {}

  uint64_t now_ns;
  uint64_t processor_ns;
  uint64_t read_bytes;
  uint64_t stall_ns;
  uint64_t demand;
  uint64_t late;
  uint64_t tripwires;
  Handled shown;
  Handled taken_out;
};

Handled between(const Handled& begin, const Handled& end) {
  return {end.times - begin.times, end.chunks - begin.chunks, end.ns - begin.ns};
}

PassCounts between(const Moment& begin, const Moment& end, uint64_t compute_ns,
                   uint64_t chunk_bytes) {
  return {.time_ns = end.now_ns - begin.now_ns,
          .stall_ns = end.stall_ns - begin.stall_ns,
          .compute_ns = compute_ns,
          .reads = (end.read_bytes - begin.read_bytes + chunk_bytes - 1) / chunk_bytes,
          .demand_reads = end.demand - begin.demand,
          .late_touches = end.late - begin.late,
          .tripwires = end.tripwires - begin.tripwires,
          .shows = end.shown.times - begin.shown.times,
          .take_outs = end.taken_out.times - begin.taken_out.times};
}

/// Waits until the pager has read ahead as far as it wants.
void wait_until_idle(const Telemetry& telemetry) {
  for (uint64_t before = UINT64_MAX; before != telemetry.read_bytes;) {
    before = telemetry.read_bytes;
    std::this_thread::sleep_for(idle_time);
  }
}

LiveRun drive(const Trace& trace, const LiveOptions& options, Pager& pager, const std::byte* region,
              const Telemetry& telemetry, int fd, AnonymousMemory to_grow) {
  LiveRun run;
  PretendedComputing engine;
  const auto pause = [&](size_t pass) {
    if (!options.between_passes) return;
    wait_until_idle(telemetry);
    options.between_passes(pass);
  };
  std::optional<Moment> warmed_up;
  for (size_t pass = 0; pass < trace.pass_begins.size(); ++pass) {
    if (pass == options.resize_pass) {
      to_grow = {};
      pager.resize(options.resize_bytes);
    }
    const uint64_t read_before_bytes = telemetry.read_bytes;
    pause(pass);
    if (pass == options.warm_up_passes) warmed_up.emplace(telemetry);
    const uint64_t device_begin = read_from_device_of(fd);
    Moment begin(telemetry);
    uint64_t compute_ns = 0;
    for (uint64_t place = trace.pass_begins[pass]; place < trace.pass_end(pass); ++place) {
      const Touch& touch = trace.touches[place];
      const uint64_t offset = touch.offset_bytes == policy::anywhere ? 0 : touch.offset_bytes;
      // The byte's value does not matter: reading it is the touch.
      static_cast<void>(*reinterpret_cast<const volatile char*>(
          region + touch.chunk * trace.chunk_bytes + offset));
      engine.compute(touch.compute_ns);
      compute_ns += touch.compute_ns;
    }
    const Moment end(telemetry);
    if (warmed_up) run.processor_ns += end.processor_ns - begin.processor_ns;
    run.own_read_bytes += end.read_bytes - begin.read_bytes;
    // Bytes that were read ahead during the pause count for the pass, as in the simulation.
    begin.read_bytes = read_before_bytes;
    run.passes.push_back(between(begin, end, compute_ns, trace.chunk_bytes));
    run.device_read_bytes += read_from_device_of(fd) - device_begin;
  }
  pause(trace.pass_begins.size());
  if (warmed_up) {
    const Moment end(telemetry);
    run.shown = between(warmed_up->shown, end.shown);
    run.taken_out = between(warmed_up->taken_out, end.taken_out);
  }
  return run;
}

}  // namespace

Trace in_naps(Trace trace) {
  for (size_t pass = 0; pass < trace.pass_begins.size(); ++pass) {
    uint64_t owed_ns = 0;
    for (uint64_t place = trace.pass_begins[pass]; place < trace.pass_end(pass); ++place) {
      Touch& touch = trace.touches[place];
      owed_ns += std::exchange(touch.compute_ns, 0);
      const bool is_last = place + 1 == trace.pass_end(pass);
      if (owed_ns >= nap_ns_min || is_last) touch.compute_ns = std::exchange(owed_ns, 0);
    }
  }
  return trace;
}

Result<LiveRun> run_live(const model::Model& model, const Trace& trace, const LiveOptions& live) {
  const std::string& path = model.files.front().path;
  auto file = io::ModelFile::open(path);
  if (!file) return forward_error(std::move(file));
  if (!file->is_direct()) {
    return fail(fmt::format("{}: no direct reads on this filesystem", path),
                "what is read would come from the page cache: take a file on a disk");
  }
  auto telemetry = telemetry::create("");
  if (!telemetry) return forward_error(std::move(telemetry));
  PagerOptions options;
  options.window_bytes = live.window_bytes;
  options.window_bytes_max = live.resize_bytes;
  options.policy = live.policy;
  options.chunk_bytes = trace.chunk_bytes;
  options.device = io::device_limits(file->fd());
  options.telemetry = *telemetry;
  options.gets_memory_first = true;
  const OnOneProcessor same_processor;
  auto pager = Pager::start(options);
  if (!pager) return forward_error(std::move(pager));
  auto to_grow = memory_to_grow(live);
  if (!to_grow) return forward_error(std::move(to_grow));
  same_processor.release_memory_threads();
  RegionRequest request;
  request.path = request.name = path;
  request.length_bytes = file->size_bytes();
  request.model = &model;
  const auto region = (*pager)->add_region(request);
  if (!region) return tl::make_unexpected(region.error());
  LiveRun run = drive(trace, live, **pager, *region, **telemetry, file->fd(), *std::move(to_grow));
  (*pager)->remove(*region, file->size_bytes());
  pager->reset();
  telemetry::close(*telemetry);
  return run;
}

}  // namespace weightpager::tools
