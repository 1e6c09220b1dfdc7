// Compares policies with each other and with the bound, on a trace, some windows and a disk.
//
// The runs are simulated, live, or both. Figures of a pass are those of passes after the warm-up,
// during which the window fills and policies learn.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/simulate/simulator.h"
#include "tools/formats/disk_file.h"

namespace weightpager::tools {

/// A count that reports show as the average of a pass, with its name in the reports.
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

/// Figures of the passes after the warm-up.
struct PassFigures {
  uint64_t median_ns = 0;
  uint64_t shortest_ns = 0;
  uint64_t longest_ns = 0;
  uint64_t read_bytes = 0;    // on average
  simulate::PassCounts mean;  // the averages of named_counts
};

PassFigures figures_of(const std::vector<simulate::PassCounts>& passes, size_t warm_up_passes,
                       uint64_t chunk_bytes);

struct PolicyRun {
  std::string policy;
  std::optional<PassFigures> simulated;
  std::optional<PassFigures> live;
  /// The timeline of the last pass, simulated; kept only for the window in the middle.
  std::vector<simulate::TimelineSpan> timeline;

  /// How far the simulated time of a pass is off the live one, as a share of the live one; nullopt
  /// unless the run has both.
  std::optional<double> deviation() const;
};

struct WindowRuns {
  uint64_t window_bytes = 0;
  /// The least bytes that any policy can read in a pass on average, and the least time of a pass:
  /// that of computing, or of reading those bytes at the disk's speed.
  uint64_t least_read_bytes = 0;
  /// The least bytes if the same chunks always stay: policy::reads_of_fixed_set().
  uint64_t fixed_set_read_bytes = 0;
  /// The least bytes if the policy must learn these chunks: policy::reads_of_learned_set().
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
  uint32_t repeats = 1;     // of each live run; the report shows the one in the middle
  uint64_t compute_ns = 0;  // a pass if nothing is to be read, on average
  Machine machine;
  std::vector<WindowRuns> windows;
  /// Why these figures may not be comparable with others.
  std::vector<std::string> remarks;
};

/// The size of deviation() for each run that has one, the smallest first.
std::vector<double> deviations(const PolicyComparison& comparison);

/// Makes the whole comparison except for live figures. Requires windows of at least
/// window_chunks_min chunks, known policies, and more passes than the warm-up has.
PolicyComparison simulate_policies(const simulate::Trace& trace, const Machine& machine,
                                   const std::vector<uint32_t>& windows_chunks,
                                   const std::vector<std::string>& policies, size_t warm_up_passes,
                                   uint64_t seed);

}  // namespace weightpager::tools
