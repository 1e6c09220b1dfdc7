// A disk that is measured again and again while a policy runs live, so that the simulation has the
// disk that there was.
//
// Problem. The disk of a virtual machine may be twice as fast a few seconds later; what was
// measured then says nothing about passes now.
//
// Idea. Passes after the warm-up come in rounds of a few. Between rounds engine and pager stand
// still, and the disk is probed. What it was in a round is the mean of before and after; the
// simulation of the same trace, with that disk, gives the round's passes. Where before and after
// are not alike, nobody knows what it was in between: such a round does not count.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "pager/simulate/simulator.h"
#include "tools/probes/disk_probe.h"

namespace weightpager::tools {

class DiskBeside {
 public:
  /// `probe` may be nullptr if nothing but the constructor is called. Both outlive it.
  DiskBeside(DiskProbe* probe, size_t warm_up_passes, const simulate::Trace& trace)
      : probe_(probe), warm_up_passes_(warm_up_passes), trace_(trace) {}

  /// Before each pass, and after the last one.
  void look(size_t pass);

  /// Those passes that count; none, if the disk was never the same for long enough.
  std::vector<simulate::PassCounts> counted(const std::vector<simulate::PassCounts>& passes) const;

  /// The same passes on paper. Fails if a probe did.
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
