// The figures and tables of the Demand Layering paper, each made by one function
// (demand_layering.cc lists them).
#pragma once

#include "pager/base/result.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools::demand_layering {

/// From the paper's own numbers, by equation.
Result<Reproduction> table_1(const ReproduceSettings& settings);
Result<Reproduction> figure_4(const ReproduceSettings& settings);
Result<Reproduction> figure_5(const ReproduceSettings& settings);
Result<Reproduction> figure_6(const ReproduceSettings& settings);
Result<Reproduction> figure_10(const ReproduceSettings& settings);
Result<Reproduction> figure_11(const ReproduceSettings& settings);
Result<Reproduction> figure_12(const ReproduceSettings& settings);
Result<Reproduction> figure_13(const ReproduceSettings& settings);
Result<Reproduction> table_2(const ReproduceSettings& settings);
Result<Reproduction> figure_14(const ReproduceSettings& settings);
Result<Reproduction> figure_15(const ReproduceSettings& settings);

}  // namespace weightpager::tools::demand_layering
