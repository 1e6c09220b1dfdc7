// The control socket's answers of a process that runs networks itself, layer by layer. Such
// processes are `weightpager serve NET.cfg…`, whose budget can be changed, and `weightpager infer`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "runtime/serve/serving.h"

namespace weightpager::tools {

class NetworkAnswers {
 public:
  /// The socket's thread calls these functions.
  struct Source {
    const char* kind;  // in `hello`: "networks" or "inference"
    std::function<serve::ServingState()> state;
    /// Asks for another budget and returns the former one. Empty if the budget cannot be changed.
    std::function<Result<uint64_t>(uint64_t budget_bytes)> change_budget;
  };

  explicit NetworkAnswers(Source source) : source_(std::move(source)) {}

  /// Returns one line, without its end (docs/reference/control.md).
  std::string answer(std::string_view line);

 private:
  Source source_;
};

}  // namespace weightpager::tools
