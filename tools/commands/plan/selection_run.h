// Runs a network by a selection of primitives, to check the planned times.
//
// Problem. A shared machine may take twice as long for some ten seconds. So a selection's time now
// says little about a time that was planned a moment ago.
//
// Idea. Another selection, whose planned time is known as well, runs in turns with the first one.
// The ratio of their times is the same on a fast machine and on a slow one.
//
// Cost: two networks with all weights in memory; two seconds for each of the two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/planned_network.h"

namespace weightpager::tools {

/// A network with random weights: the time of a layer does not depend on them. For one thread.
class SelectionRun {
 public:
  /// `network` must outlive the object. Fails if memory runs out, or if this machine cannot compute
  /// in these ways.
  static Result<SelectionRun> make(const network::Network& network,
                                   std::span<const plan::LayerChoice> choices, int threads);

  /// The time of the planned parts of a pass: convolutions and changes of layout.
  Result<double> pass_ns();

 private:
  SelectionRun(const network::Network& network, plan::PlannedNetwork planned,
               plan::PackedWeights weights);

  std::vector<float> input_;
  plan::PlannedNetwork planned_;
  plan::PackedWeights weights_;
};

/// Medians over passes.
struct InTurns {
  double took_ns = 0;
  /// The time divided by the time that the reference took just before.
  double by_reference = 0;
};

Result<InTurns> run_in_turns(SelectionRun& selection, SelectionRun& reference);

}  // namespace weightpager::tools
