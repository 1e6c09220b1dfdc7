// Running the engine: started, waited for, its signals handed on, its end taken over.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::tools {

/// Variables that the engine gets beside its inherited ones; without a value: that it does not get.
using Environment = std::vector<std::pair<std::string, std::optional<std::string>>>;

struct EngineExit {
  int status = 0;
  /// The signal that killed it, 0 if it ended by itself.
  int signal = 0;
};

/// Starts `path` with `arguments` (the first is the name that it sees) in this process group and
/// terminal, and waits for its end. While it runs, signals sent to weightpager reach it too. Fails,
/// with the errno of exec, if it cannot be started. Call once, from a process with one thread: the
/// signals stay blocked.
Result<EngineExit> run_engine(const std::string& path, const std::vector<std::string>& arguments,
                              const Environment& environment);

/// Ends this process as the engine ended, by the same signal if one killed it.
[[noreturn]] void end_like(const EngineExit& engine);

}  // namespace weightpager::tools
