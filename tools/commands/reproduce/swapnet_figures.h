// The figures and tables of the SwapNet paper; swapnet.cc has their list.
#pragma once

#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools::swapnet {

// swapnet_model.cc: what the delay model is made of.
Result<Reproduction> table_1(const ReproduceSettings& settings);
Result<Reproduction> table_2(const ReproduceSettings& settings);
Result<Reproduction> figure_8(const ReproduceSettings& settings);
Result<Reproduction> figure_9(const ReproduceSettings& settings);

// swapnet_blocks.cc: how one network is cut.
Result<Reproduction> figure_10(const ReproduceSettings& settings);
Result<Reproduction> table_3(const ReproduceSettings& settings);
Result<Reproduction> figure_14(const ReproduceSettings& settings);
Result<Reproduction> figure_15(const ReproduceSettings& settings);
Result<Reproduction> figure_16(const ReproduceSettings& settings);

// swapnet_applications.cc: several networks in one budget.
Result<Reproduction> summary(const ReproduceSettings& settings);
Result<Reproduction> figure_11(const ReproduceSettings& settings);
Result<Reproduction> figure_12(const ReproduceSettings& settings);
Result<Reproduction> figure_13(const ReproduceSettings& settings);
// swapnet_beyond.cc.
Result<Reproduction> beyond(const ReproduceSettings& settings);

// swapnet_devices.cc: other boards, budgets that change, overheads.
Result<Reproduction> figure_17(const ReproduceSettings& settings);
Result<Reproduction> figure_18(const ReproduceSettings& settings);
Result<Reproduction> figure_19(const ReproduceSettings& settings);

// swapnet_here_blocks.cc: one network at a time, on this machine.
Result<Reproduction> figure_11_here(const ReproduceSettings& settings);
Result<Reproduction> figure_15_here(const ReproduceSettings& settings);
Result<Reproduction> figure_16_here(const ReproduceSettings& settings);
Result<Reproduction> figure_18_here(const ReproduceSettings& settings);
// swapnet_here_power.cc.
Result<Reproduction> figure_19_here(const ReproduceSettings& settings);
// swapnet_here_applications.cc.
Result<Reproduction> applications_here(const ReproduceSettings& settings);

}  // namespace weightpager::tools::swapnet
