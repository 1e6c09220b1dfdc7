// Runs the engine: starts it, hands signals on to it, waits for it, and ends as it ended.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::tools {

/// Variables that the engine gets beside its inherited ones. A variable without a value is removed.
using Environment = std::vector<std::pair<std::string, std::optional<std::string>>>;

struct EngineExit {
  int status = 0;
  /// The signal that killed it, 0 if it ended by itself.
  int signal = 0;
};

/// Starts `path` with `arguments` in this process group and terminal, and waits for its end. The
/// first argument is the name that the engine sees. While the engine runs, signals that are sent to
/// weightpager reach it, too. Fails with the errno of exec if the engine cannot be started. Call it
/// once, from a process with one thread: the signals stay blocked.
Result<EngineExit> run_engine(const std::string& path, const std::vector<std::string>& arguments,
                              const Environment& environment);

/// Ends this process as the engine ended, by the same signal if one killed it.
[[noreturn]] void end_like(const EngineExit& engine);

}  // namespace weightpager::tools
