// Pictures of blocks over time, for the figures of SwapNet.
#pragma once

#include <string>

#include "runtime/budget/blocks.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/report/svg_chart.h"

namespace weightpager::tools::swapnet {

/// The note below tables of delays.
extern const char* const model_note;

/// Rows of reading, computing and letting go; a colour for each block, of which there are few.
std::string timeline_svg(const std::string& title, const PaperNetwork& network,
                         const budget::BlockEnds& ends);

/// MiB of weights in memory over milliseconds, in steps. A block counts from the beginning of its
/// read.
ChartLine memory_line(const std::string& name, const PaperNetwork& network,
                      const budget::BlockEnds& ends);

/// "1-30, 31-66, 67-101": layers from 1 on, as in the paper; of many blocks, how many.
std::string layers_text(const budget::BlockEnds& ends);

}  // namespace weightpager::tools::swapnet
