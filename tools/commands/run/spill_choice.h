// Whose memory a run spills, and where to.
//
// An engine that reads its model has it in memory of its own, and nothing would be paged if that
// memory were not served. So it is served unless the user forbids it, in a folder for temporary
// files on a disk; where that cannot be, the engine runs as it would without. An engine that maps
// its model is left as it is: what it has beside the model would take room from it. Whoever asks
// for spilling gets it for all large blocks, or a refusal that says why not.
//
// Cost: a file is made in the folder, and vanishes.
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::tools {

struct RunOptions;

enum class SpillScope {
  none,
  of_readers,  // of engines that read their models
  of_all,      // of all engines: the user asked for it
};

/// What reports call the choice: "none", "readers" or "all".
const char* name_of(SpillScope spilling);

/// Makes the folders in `options` absolute, and finds one where the user named none. Fails if the
/// user asked for spilling and it cannot be; otherwise there is none then, and `spill_lack` says
/// why and what helps.
Status choose_spilling(RunOptions& options);

/// Engine profiles keep engines from copying weights out of their mapping, which need not be where
/// copies are served. But a copy of a mixture of experts is memory like any other: nothing tells
/// where its experts are. `models`: those among the engine's arguments.
void choose_profile(RunOptions& options, const std::vector<std::string>& models);

}  // namespace weightpager::tools
