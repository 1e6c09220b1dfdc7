// Runs a network by a selection of primitives, to see whether planned times are true.
//
// Problem. A shared machine takes twice as long for some ten seconds, and then not. What a
// selection takes now says little about a time that was planned a moment ago.
//
// Idea. Another selection, whose planned time is known as well, runs in turns with it: how much
// longer the one takes than the other is the same on a fast machine and on a slow one.
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

/// A network with random weights, which layers do not care about. One thread at a time, always the
/// same.
class SelectionRun {
 public:
  /// `network` must outlive this. Fails without memory, or where this machine cannot compute so.
  static Result<SelectionRun> make(const network::Network& network,
                                   std::span<const plan::LayerChoice> choices, int threads);

  /// What a pass takes of what is planned: convolutions and changes of layout.
  Result<double> pass_ns();

 private:
  SelectionRun(const network::Network& network, plan::PlannedNetwork planned,
               plan::PackedWeights weights);

  std::vector<float> input_;
  plan::PlannedNetwork planned_;
  plan::PackedWeights weights_;
};

/// Medians of passes.
struct InTurns {
  double took_ns = 0;
  /// By what the other took just before.
  double by_reference = 0;
};

Result<InTurns> run_in_turns(SelectionRun& selection, SelectionRun& reference);

}  // namespace weightpager::tools
