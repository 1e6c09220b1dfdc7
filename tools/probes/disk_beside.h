// Measures the disk again and again while a policy runs live, so that the simulation gets the disk
// as it was during the run.
//
// Problem. The disk of a virtual machine may be twice as fast a few seconds later. A single
// measurement says nothing about passes at another time.
//
// Idea. After the warm-up, a few passes form a round. Between rounds engine and pager stand still,
// and the disk is probed. The disk of a round is the mean of the probes before and after it. The
// simulation of the same trace with that disk gives the round's passes. If the two probes are not
// alike, nobody knows how the disk was in between, and the round does not count.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "pager/simulate/simulator.h"
#include "tools/probes/disk_probe.h"

namespace weightpager::tools {

class DiskBeside {
 public:
  /// `probe` may be nullptr if only the constructor is called. Both must outlive the object.
  DiskBeside(DiskProbe* probe, size_t warm_up_passes, const simulate::Trace& trace)
      : probe_(probe), warm_up_passes_(warm_up_passes), trace_(trace) {}

  /// Called before each pass, and after the last one.
  void look(size_t pass);

  /// The passes of the rounds that count. Empty if the disk changed during every round.
  std::vector<simulate::PassCounts> counted(const std::vector<simulate::PassCounts>& passes) const;

  /// The same passes, simulated. Fails if a probe failed.
  Result<std::vector<simulate::PassCounts>> simulate(simulate::SimulatorOptions options) const;

 private:
  static constexpr size_t round_passes = 2;

  size_t rounds() const { return probes_.empty() ? 0 : probes_.size() - 1; }
  bool begins_round(size_t pass) const {
    return pass >= warm_up_passes_ && (pass - warm_up_passes_) % round_passes == 0;
  }
  bool counts(size_t round) const;
  void keep_round(size_t round, const std::vector<simulate::PassCounts>& passes,
                  std::vector<simulate::PassCounts>& kept) const;

  DiskProbe* const probe_;
  const size_t warm_up_passes_;
  const simulate::Trace& trace_;
  std::vector<FittedDisk> probes_;  // before each round, and after the last one
  std::optional<Error> problem_;
};

}  // namespace weightpager::tools
