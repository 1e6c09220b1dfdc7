// The times of layers in a run of their network, from the times of some that were seen in one.
//
// Problem. A layer that is measured alone, again and again, takes less than in its network. In the
// network, its pictures lie where another layer, perhaps on another processor, has left them, and
// other users of a shared machine take their part. Changes of layout and short layers lose most, so
// there is no common factor. But a network can be run by a few selections only, and there are
// thousands of candidates.
//
// Idea. Parts of layers that were run in place take the time that they took there. The other parts
// take their time alone times a ratio: how much longer parts of their kind took in place. A kind is
// the same code; if none of it was seen, any other convolution; if none was seen either, any part.
// So the seen and the unseen compare as they would in a run. The unseen parts that a selection then
// prefers are run next (in_place_profiler.h).
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

/// One thing that a profile has a time of: a convolution, a change of layout, or other work.
struct Part {
  /// The part's key in InPlaceTimes.
  std::string key;
  double time_ns = 0;
};

/// A layer's parts, grouped as the layer's time is measured (RunTimes).
struct LayerParts {
  std::vector<Part> changes;
  /// None or one each.
  std::vector<Part> convolution;
  std::vector<Part> other;

  double time_ns() const;
};

/// The parts of a network that is computed by `choices`, by layer. Times are the profile's, which
/// has all of them.
std::vector<LayerParts> parts_of(const network::Network& network, const Profile& profile,
                                 std::span<const LayerChoice> choices);

double time_ns_of(std::span<const LayerParts> layers);
bool are_known(std::span<const LayerParts> layers, const InPlaceTimes& times);

/// From a run to times of parts; `took` is by layer. Parts that occur several times get their
/// average. A time that was measured of several parts together is divided in proportion to their
/// times alone.
InPlaceTimes times_in_run(std::span<const LayerParts> layers, std::span<const RunTimes> took);

/// `alone` with all times as in a run: seen there, or guessed from parts that were.
Profile in_place(const Profile& alone, const InPlaceTimes& seen);

/// The parts of `now`, with the times that they would have had when `then` was measured. Parts that
/// are in both keep their time in `then`, and tell how the pace has changed for the rest.
InPlaceTimes at_pace_of(const InPlaceTimes& then, const Profile& alone, const InPlaceTimes& now);

}  // namespace weightpager::plan
