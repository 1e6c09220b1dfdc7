// `weightpager run`: runs an unchanged engine with its model in a window.
//
// Everything that can be wrong is checked before the engine starts: the window's size, the model
// files, the engine itself, the report's path. Then the engine runs with the interposer preloaded,
// in the same terminal and process group. weightpager waits, hands signals on, and ends as the
// engine ended. Cost: reading the models' headers at the start, nothing while the engine runs.
#pragma once

#include <string>
#include <vector>

#include "pager/policy/named/make_policy.h"
#include "tools/cli/cli.h"
#include "tools/commands/run/spill_choice.h"

namespace weightpager::tools {

/// The user's options.
struct RunOptions {
  std::string window;              // as the user wrote it; "" with --attach
  std::string attach;              // the server's name; "" for a window of the run's own
  std::vector<std::string> match;  // globs of model files beside the built-in ones
  std::string mapper = "auto";
  std::string policy{policy::adaptive_policy};
  std::string json_path;    // "" for no report
  std::string record_path;  // "" for no trace
  std::string http_port;    // "" for no live page
  std::vector<std::string> mirrors;
  SpillScope spilling = SpillScope::none;  // of the engine's own memory
  std::string spill_folder;                // "" without spilling
  std::string spill_lack;                  // why there is none although nobody forbade it, or ""
  std::string kept_folder;                 // "": nothing of it is kept for the next run
  bool quiet = false;
  bool profile = true;
  std::vector<std::string> engine;  // its name and its arguments
};

int run_command(const std::vector<std::string>& words);
Command run_description();

}  // namespace weightpager::tools
