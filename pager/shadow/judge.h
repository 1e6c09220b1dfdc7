// Policies on paper, beside the one in use: which of them would have served the engine best.
//
// What the engine touched lately is played twice, with each policy that can be used live, in the
// same window and on a disk as fast as the real one was: the first time fills the window and shows
// the policy what it can learn, the second counts. The simulator is the laboratory's
// (simulate/simulator.h), the policies are the very ones that would take over.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pager/simulate/simulator.h"
#include "pager/simulate/trace.h"

namespace weightpager::shadow {

struct Verdict {
  /// The one in use, unless another is faster by a tenth. A name of policy::named_policies().
  std::string_view best;
  /// Its time by that of the one in use.
  double time_ratio = 1;
};

/// `situation`: the policy in use, the window, the disk. Policies of `refuted` are left out. Its
/// trace's passes do not count. Nothing if `situation.is_abandoned` became true.
std::optional<Verdict> judge(simulate::Trace sample, const simulate::SimulatorOptions& situation,
                             std::span<const std::string_view> refuted);

/// Whoever answers as `judge` does.
using Judge = decltype(&judge);

}  // namespace weightpager::shadow
