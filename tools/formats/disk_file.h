// Disk models in files: what `weightpager bench disk --json FILE` writes and --disk reads; with
// them, what the pager's thread has to do on that machine.
#pragma once

#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "pager/simulate/disk_model.h"
#include "pager/simulate/handling.h"

namespace weightpager::tools {

struct Machine {
  simulate::DiskModel disk;
  simulate::Handling handling;
};

/// A preset, a speed, or a file; see simulate::disk_by_name. Handling that is not told (files had
/// none at first) is Handling's own.
Result<Machine> read_machine(const std::string& name);
/// A file's text. `name` is what errors call it.
Result<Machine> parse_machine(std::string_view text, const std::string& name);

/// One JSON object, as read_machine takes it.
std::string machine_json(const Machine& machine);

}  // namespace weightpager::tools
