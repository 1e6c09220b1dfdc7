// See shared_disk.h.
#include "runtime/budget/shared_disk.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::budget {
namespace {

using pipeline::ScheduleAction;
using pipeline::UnitNumber;

constexpr uint64_t never_ns = UINT64_MAX;

// One network between its schedule and its processors.
class Runner {
 public:
  explicit Runner(SharingNetwork network)
      : network_(std::move(network)),
        before_deadline_ns_(latest_starts_before_deadline(network_.costs)) {
    WP_ASSERT(network_.costs.size() == network_.schedule.units());
  }

  // The end of a kernel that the schedule has started, or the start of an inference; the disk's
  // events are separate.
  uint64_t next_event_ns() const {
    const uint64_t kernel_ns = kernels_.empty() ? never_ns : kernels_.front().finish_ns;
    return is_running_ ? kernel_ns : arrival_ns();
  }

  void process_event(uint64_t now_ns) {
    if (!is_running_) return start(now_ns);
    network_.schedule.on_kernel_finished(kernels_.front().unit);
    kernels_.pop_front();
    if (!network_.schedule.is_inference_finished()) return;
    is_running_ = false;
    finished_ns_ = now_ns;
    times_.delays_ns.push_back(now_ns - started_ns_);
    times_.late += now_ns - started_ns_ > network_.deadline_ns;
  }

  void on_read_finished(UnitNumber unit) { network_.schedule.on_read_finished(unit); }

  // Starts the kernels that are due; `read` gets the units that are to be read.
  template <typename Read>
  void carry_out(uint64_t now_ns, Read read) {
    for (;;) {
      const ScheduleAction action = network_.schedule.next();
      if (action.kind == ScheduleAction::Kind::none) return;
      if (action.kind == ScheduleAction::Kind::read) {
        read(action.unit);
        continue;
      }
      WP_ASSERT(action.kind == ScheduleAction::Kind::kernel);
      processor_idle_ns_ = std::max(now_ns, processor_idle_ns_) + cost(action.unit).kernel_ns;
      kernels_.push_back({action.unit, processor_idle_ns_});
    }
  }

  const pipeline::UnitCosts& cost(UnitNumber unit) const {
    return network_.costs[network_.schedule.index(unit)];
  }

  int64_t latest_start_ns(UnitNumber unit) const {
    const uint64_t inference = unit / network_.schedule.units();
    const uint64_t deadline_ns = start_ns(inference) + network_.deadline_ns;
    return static_cast<int64_t>(deadline_ns) -
           static_cast<int64_t>(before_deadline_ns_[network_.schedule.index(unit)]);
  }

  const NetworkTimes& times() const { return times_; }

 private:
  struct Kernel {
    UnitNumber unit;
    uint64_t finish_ns;
  };

  uint64_t arrival_ns() const {
    return std::max(finished_ns_, network_.period_ns * times_.delays_ns.size());
  }

  void start(uint64_t now_ns) {
    is_running_ = true;
    started_ns_ = now_ns;
    network_.schedule.start_inference();
  }

  // The start of an inference that is running, or else about when it will start.
  uint64_t start_ns(uint64_t inference) const {
    const uint64_t last = times_.delays_ns.size();
    if (inference == last) return is_running_ ? started_ns_ : arrival_ns();
    const uint64_t expected_ns = started_ns_ + network_.deadline_ns;
    return std::max(expected_ns, network_.period_ns * inference);
  }

  SharingNetwork network_;
  std::vector<uint64_t> before_deadline_ns_;
  std::deque<Kernel> kernels_;
  uint64_t processor_idle_ns_ = 0;
  bool is_running_ = false;
  uint64_t started_ns_ = 0;
  uint64_t finished_ns_ = 0;
  NetworkTimes times_;
};

// A unit's read, in pieces: `pieces_left` are not finished.
struct UnitRead {
  uint32_t network = 0;
  UnitNumber unit = 0;
  uint64_t pieces_left = 0;
};

// Things with numbers, which are used again after they were given back.
template <typename Thing>
class Numbered {
 public:
  size_t add(const Thing& thing) {
    if (free_.empty()) {
      things_.push_back(thing);
      return things_.size() - 1;
    }
    const size_t number = free_.back();
    free_.pop_back();
    things_[number] = thing;
    return number;
  }
  void give_back(size_t number) { free_.push_back(number); }
  Thing& operator[](size_t number) { return things_[number]; }

 private:
  std::vector<Thing> things_;
  std::vector<size_t> free_;
};

class Simulation {
 public:
  Simulation(std::vector<SharingNetwork> networks, const SharedDiskSettings& settings)
      : settings_(settings), arbiter_(static_cast<uint32_t>(networks.size()), settings.arbiter) {
    for (SharingNetwork& network : networks) runners_.emplace_back(std::move(network));
  }

  SharedDiskTimes run() {
    while (!is_done()) process_event();
    SharedDiskTimes times = {.end_ns = now_ns_, .disk_busy_ns = disk_busy_ns_};
    for (const Runner& runner : runners_) times.networks.push_back(runner.times());
    return times;
  }

 private:
  struct Piece {
    size_t read;  // into reads_
    uint64_t size_bytes;
    uint64_t cost_ns;
  };
  struct AtDisk {
    size_t piece;  // into pieces_
    uint64_t finish_ns;
  };

  bool is_done() const {
    return std::all_of(runners_.begin(), runners_.end(), [&](const Runner& runner) {
      return runner.times().delays_ns.size() >= settings_.inferences_min;
    });
  }

  // Of events at one time, the disk's comes first, then those of networks by number.
  void process_event() {
    const uint64_t disk_ns = at_disk_.empty() ? never_ns : at_disk_.front().finish_ns;
    const auto earliest = std::min_element(
        runners_.begin(), runners_.end(),
        [](const Runner& a, const Runner& b) { return a.next_event_ns() < b.next_event_ns(); });
    now_ns_ = std::min(disk_ns, earliest->next_event_ns());
    WP_ASSERT(now_ns_ != never_ns);
    if (disk_ns == now_ns_) {
      finish_piece();
    } else {
      earliest->process_event(now_ns_);
      carry_out(static_cast<uint32_t>(earliest - runners_.begin()));
    }
    feed_disk();
  }

  void finish_piece() {
    const Piece piece = pieces_[at_disk_.front().piece];
    pieces_.give_back(at_disk_.front().piece);
    at_disk_.pop_front();
    arbiter_.on_finished(piece.size_bytes);
    if (--reads_[piece.read].pieces_left > 0) return;
    const UnitRead read = reads_[piece.read];
    reads_.give_back(piece.read);
    runners_[read.network].on_read_finished(read.unit);
    carry_out(read.network);
  }

  void carry_out(uint32_t network) {
    runners_[network].carry_out(now_ns_, [&](UnitNumber unit) { ask(network, unit); });
  }

  void ask(uint32_t network, UnitNumber unit) {
    const pipeline::UnitCosts& cost = runners_[network].cost(unit);
    const uint64_t count =
        (cost.size_bytes + settings_.read_bytes_max - 1) / settings_.read_bytes_max;
    const size_t read = reads_.add({.network = network, .unit = unit, .pieces_left = count});
    const int64_t latest_start_ns = runners_[network].latest_start_ns(unit);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t begin = i * settings_.read_bytes_max;
      const uint64_t end = std::min(begin + settings_.read_bytes_max, cost.size_bytes);
      const uint64_t begin_ns = share(cost, begin);
      const size_t piece = pieces_.add({read, end - begin, share(cost, end) - begin_ns});
      arbiter_.ask(network, {.tag = piece,
                             .size_bytes = end - begin,
                             .latest_start_ns = latest_start_ns + static_cast<int64_t>(begin_ns)});
    }
  }

  // The time to read the first `bytes` of a unit.
  static uint64_t share(const pipeline::UnitCosts& cost, uint64_t bytes) {
    const auto product = static_cast<unsigned __int128>(cost.read_ns) * bytes;
    return static_cast<uint64_t>(product / cost.size_bytes);
  }

  void feed_disk() {
    while (const auto start = arbiter_.next()) {
      const uint64_t cost_ns = pieces_[start->read.tag].cost_ns;
      disk_idle_ns_ = std::max(now_ns_, disk_idle_ns_) + cost_ns;
      disk_busy_ns_ += cost_ns;
      at_disk_.push_back({start->read.tag, disk_idle_ns_});
    }
  }

  SharedDiskSettings settings_;
  DiskArbiter arbiter_;
  std::vector<Runner> runners_;
  Numbered<UnitRead> reads_;
  Numbered<Piece> pieces_;
  std::deque<AtDisk> at_disk_;
  uint64_t disk_idle_ns_ = 0;
  uint64_t disk_busy_ns_ = 0;
  uint64_t now_ns_ = 0;
};

}  // namespace

SharedDiskTimes simulate_shared_disk(std::vector<SharingNetwork> networks,
                                     const SharedDiskSettings& settings) {
  WP_ASSERT(!networks.empty());
  return Simulation(std::move(networks), settings).run();
}

}  // namespace weightpager::budget
