// Measures layers in runs of their network.
//
// Problem. Layers take longer in a run than alone at best: on a shared machine of two processors,
// runs took 13 to 41 % longer. And the pace of such a machine changes: for stretches of half a
// second everything takes a quarter less, when nobody else's threads share its cores.
//
// Idea. The network is run as a plan says, in an arena as in an inference, with weights from
// memory. Of the passes, the middle half counts: it leaves out the fastest stretches and the passes
// that were interrupted. A layer takes its mean over these passes, so the layers' times add up to
// the time of a pass. Then the network is planned again (in_place.h), until a plan has nothing new.
//
// To make the times of two such measurements comparable, the plan that was measured first runs in
// turns with each later one. It tells how much slower the machine is now than it was then: by kind
// of work, because work that waits for memory and work that computes do not slow down together
// (connected layers can become faster while convolutions become slower).
//
// Some of the ways that are chosen at last are run once more, and tell the machine's pace now. A
// caller that measures how fast a disk is now needs that pace, too.
//
// Cost: some seconds for each plan that has something new. Memory: the least that the network can
// run in without a window for its weights, and the weights that no cache has (cold_weights.h).
#pragma once

#include <functional>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/planned_network.h"
#include "runtime/plan/profile.h"
#include "runtime/plan/profiler.h"

namespace weightpager::plan {

/// Ways to compute a network; each has one choice per layer.
using Ways = std::vector<std::vector<LayerChoice>>;

/// The one or several ways that would be chosen if everything took as long as the profile says.
using Choose = std::function<Result<Ways>(const Profile&)>;

enum class Pace { as_first_measured, now };

/// The times of all parts in runs of `network`: what is known already, and runs of the ways that
/// `choose` returns. `alone` is of profile_network() with the same options; new measurements are
/// kept in the same cache. With Pace::now, the pace is that of the first, the middle and the last
/// of the ways that `choose` returned last.
Result<Profile> profile_in_place(const network::Network& network, const Profile& alone,
                                 const ProfilerOptions& options, Pace pace, const Choose& choose);

/// The mean of the passes that are in the middle half by their time. `passes` is not empty.
Pass middle_of(std::vector<Pass> passes);

}  // namespace weightpager::plan
