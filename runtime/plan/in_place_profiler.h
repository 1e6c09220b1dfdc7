// Measures layers in runs of their network.
//
// Problem. What layers take alone, at best, is not what they take in a run: on a shared machine of
// two processors runs took 13 to 41 % longer. And the pace of such a machine changes: for stretches
// of half a second everything takes a quarter less, because somebody else's threads share its cores
// or do not.
//
// Idea. The network is run as a plan says, in an arena as in an inference, with weights from
// memory. Of the passes the half in the middle counts (neither the fastest stretches nor what was
// interrupted), and a layer takes its mean over these: so layers add up to what a pass takes. Then
// it is planned again (in_place.h), until nothing that is planned is new. So that times of two such
// measurements compare, the plan that was measured first runs in turns with each later one, and
// tells how much slower the machine is now than it was then: by kind of work, because what waits
// for memory and what computes do not slow down together (connected layers can become faster while
// convolutions become slower).
//
// Some of what is chosen at last, run once more, tells the pace of the machine now: who wants to
// know how fast a disk is now wants to know that, too.
//
// Cost: some seconds for each plan that has something new; the least memory that the network can
// run in without a window for its weights, and that of weights which no cache has (cold_weights.h).
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

/// How a network may be computed: by layer, each.
using Ways = std::vector<std::vector<LayerChoice>>;

/// How it would be, if everything took so long: one way or several.
using Choose = std::function<Result<Ways>(const Profile&)>;

enum class Pace { as_first_measured, now };

/// What everything takes in runs of `network`, by what is known and by runs of what `choose` comes
/// to. `alone` is of profile_network(), with the same options; what is measured is kept with it.
/// The pace is that of the first, the middle and the last of the ways that `choose` has named last.
Result<Profile> profile_in_place(const network::Network& network, const Profile& alone,
                                 const ProfilerOptions& options, Pace pace, const Choose& choose);

/// The mean of those passes that are in the middle half by what they take; of at least one.
Pass middle_of(std::vector<Pass> passes);

}  // namespace weightpager::plan
