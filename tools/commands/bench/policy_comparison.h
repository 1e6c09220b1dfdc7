// Policies against each other and against the bound: a trace, some windows, a disk.
//
// Simulated, live, or both. What is told of a pass is told of those after the warm-up, in which the
// window fills and policies learn.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/simulate/simulator.h"
#include "tools/formats/disk_file.h"

namespace weightpager::tools {

/// What reports tell of a pass on average, by the names that they have for it.
struct NamedCount {
  const char* key;
  uint64_t simulate::PassCounts::*count;
};
inline constexpr std::array<NamedCount, 8> named_counts{{
    {"pass_ns_mean", &simulate::PassCounts::time_ns},
    {"stall_ns", &simulate::PassCounts::stall_ns},
    {"reads", &simulate::PassCounts::reads},
    {"demand_reads", &simulate::PassCounts::demand_reads},
    {"late_touches", &simulate::PassCounts::late_touches},
    {"tripwires", &simulate::PassCounts::tripwires},
    {"shows", &simulate::PassCounts::shows},
    {"take_outs", &simulate::PassCounts::take_outs},
}};

/// Of the passes after the warm-up.
struct PassFigures {
  uint64_t median_ns = 0;
  uint64_t shortest_ns = 0;
  uint64_t longest_ns = 0;
  uint64_t read_bytes = 0;    // on average
  simulate::PassCounts mean;  // of each of named_counts
};

PassFigures figures_of(const std::vector<simulate::PassCounts>& passes, size_t warm_up_passes,
                       uint64_t chunk_bytes);

struct PolicyRun {
  std::string policy;
  std::optional<PassFigures> simulated;
  std::optional<PassFigures> live;
  /// Of the last pass, simulated; kept for the window in the middle.
  std::vector<simulate::TimelineSpan> timeline;

  /// How far the simulated time of a pass is off the live one, as a share of it; nothing unless it
  /// has both.
  std::optional<double> deviation() const;
};

struct WindowRuns {
  uint64_t window_bytes = 0;
  /// The fewest bytes a pass that any policy can read on average, and the time that none beats:
  /// computing, or reading those bytes at the disk's speed.
  uint64_t least_read_bytes = 0;
  /// … and if the same chunks stayed for good: policy::reads_of_fixed_set().
  uint64_t fixed_set_read_bytes = 0;
  /// … and if that had to be learned: policy::reads_of_learned_set().
  uint64_t learned_set_read_bytes = 0;
  uint64_t least_ns = 0;
  std::vector<PolicyRun> runs;
};

struct PolicyComparison {
  std::string name;  // the trace's
  uint64_t model_bytes = 0;
  uint64_t chunk_bytes = 0;
  size_t passes = 0;
  size_t warm_up_passes = 0;
  uint32_t repeats = 1;     // of each live run, of which the one in the middle is told
  uint64_t compute_ns = 0;  // a pass, on average
  Machine machine;
  std::vector<WindowRuns> windows;
  /// Why these figures may not be comparable with others.
  std::vector<std::string> remarks;
};

/// How large deviation() is, of each run that has one, smallest first.
std::vector<double> deviations(const PolicyComparison& comparison);

/// Everything but live figures. Requires windows of window_chunks_min or more, known policies, and
/// more passes than warm-up.
PolicyComparison simulate_policies(const simulate::Trace& trace, const Machine& machine,
                                   const std::vector<uint32_t>& windows_chunks,
                                   const std::vector<std::string>& policies, size_t warm_up_passes,
                                   uint64_t seed);

}  // namespace weightpager::tools
