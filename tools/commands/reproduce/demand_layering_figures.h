// The figures and tables of the Demand Layering paper, each made by one function
// (demand_layering.cc lists them).
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"
#include "tools/commands/reproduce/paper.h"
#include "tools/report/svg_chart.h"

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

/// Measured on this machine, with a network that is made for it.
Result<Reproduction> figure_5_here(const ReproduceSettings& settings);
Result<Reproduction> figure_6_here(const ReproduceSettings& settings);
Result<Reproduction> figure_7_here(const ReproduceSettings& settings);
Result<Reproduction> figure_13_here(const ReproduceSettings& settings);
Result<Reproduction> table_2_here(const ReproduceSettings& settings);
Result<Reproduction> figure_16_here(const ReproduceSettings& settings);

/// The share of values that are at most x.
ChartLine distribution(const std::string& name, std::vector<double> values);

}  // namespace weightpager::tools::demand_layering
