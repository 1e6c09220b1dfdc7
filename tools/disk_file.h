// Disk models in files: what `weightpager bench disk --json FILE` writes and --disk reads.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/disk_model.h"

namespace weightpager::tools {

/// A preset, a speed, or a file; see simulate::disk_by_name.
Result<simulate::DiskModel> read_disk(const std::string& name);

/// One JSON object, as read_disk takes it.
std::string disk_json(const simulate::DiskModel& disk);

}  // namespace weightpager::tools
