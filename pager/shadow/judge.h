// Which policy would have served the engine best: the one in use, or another one that is simulated.
//
// The engine's last touches are played twice, with each policy that can be used live, in the same
// window and on a disk as fast as the real one was. The first time fills the window and shows the
// policy what it can learn; the second time counts. The simulator is simulate/simulator.h, and the
// policies have the code that would take over.
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
  /// The policy in use, unless another one is faster by a tenth. A name of
  /// policy::named_policies().
  std::string_view best;
  /// Its time, divided by that of the policy in use.
  double time_ratio = 1;
};

/// `situation`: the policy in use, the window, the disk. Policies of `refuted` are left out. The
/// sample's pass_begins do not count. Returns nothing if `situation.is_abandoned` became true, or
/// if the simulator refuses the window.
std::optional<Verdict> judge(simulate::Trace sample, const simulate::SimulatorOptions& situation,
                             std::span<const std::string_view> refuted);

/// A function that answers as `judge` does.
using Judge = decltype(&judge);

}  // namespace weightpager::shadow
