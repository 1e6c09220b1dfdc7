// The figures and tables of the TASO paper, each made by one function (taso.cc lists them).
#pragma once

#include "pager/base/result.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools::taso {

/// From the networks' shapes alone.
Result<Reproduction> figure_2(const ReproduceSettings& settings);

/// Measured on this machine.
Result<Reproduction> figure_1(const ReproduceSettings& settings);
Result<Reproduction> figure_5(const ReproduceSettings& settings);
Result<Reproduction> figure_6(const ReproduceSettings& settings);
Result<Reproduction> figure_7(const ReproduceSettings& settings);
Result<Reproduction> figure_8(const ReproduceSettings& settings);
Result<Reproduction> figure_9(const ReproduceSettings& settings);
Result<Reproduction> figure_10(const ReproduceSettings& settings);
Result<Reproduction> table_1(const ReproduceSettings& settings);
/// As Figures 6 to 9, of the network that the paper leaves out.
Result<Reproduction> resnet_fronts(const ReproduceSettings& settings);
/// Networks that are run by the selections of Figure 5.
Result<Reproduction> runs(const ReproduceSettings& settings);
/// What the paper's best needs, and weightpager's.
Result<Reproduction> beyond(const ReproduceSettings& settings);

}  // namespace weightpager::tools::taso
