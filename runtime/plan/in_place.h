// What layers take in a run of their network, from some that were seen in one.
//
// Problem. Measured alone, again and again, a layer takes less than in its network: there its
// pictures lie where another layer, perhaps another processor, has left them, and a machine that is
// shared takes its part. Changes of layout and short layers lose most, so it is no common factor.
// But a network can be run by a few selections only, and there are thousands of candidates.
//
// Idea. Parts of layers that were run in place take what they took there. The others take what they
// take alone, longer by as much as parts of their kind (the same code; if none was seen, another
// convolution; if none was, any part) took longer in place: what was seen and what was not compare
// as they would in a run. What a selection then prefers of the unseen is run next
// (in_place_profiler.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/network/network.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/planned_operations.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

/// What a profile has a time of: a convolution, a change of layout, or what is neither.
struct Part {
  /// In InPlaceTimes.
  std::string key;
  double time_ns = 0;
};

/// By how a layer's time is measured (RunTimes).
struct LayerParts {
  std::vector<Part> changes;
  /// None or one each.
  std::vector<Part> convolution;
  std::vector<Part> other;

  double time_ns() const;
};

/// By layer, of a network that is computed so; times are the profile's, which has all of them.
std::vector<LayerParts> parts_of(const network::Network& network, const Profile& profile,
                                 std::span<const LayerChoice> choices);

double time_ns_of(std::span<const LayerParts> layers);
bool are_known(std::span<const LayerParts> layers, const InPlaceTimes& times);

/// From a run: by layer, what it took. Parts that occur several times take their average; what was
/// measured of several parts together is divided in proportion to what they take alone.
InPlaceTimes times_in_run(std::span<const LayerParts> layers, std::span<const RunTimes> took);

/// `alone` with all times as in a run: seen, or guessed by those that were.
Profile in_place(const Profile& alone, const InPlaceTimes& seen);

/// What everything in `now` would have taken when `then` was measured: what both have tells by how
/// much, and is as it was.
InPlaceTimes at_pace_of(const InPlaceTimes& then, const Profile& alone, const InPlaceTimes& now);

}  // namespace weightpager::plan
