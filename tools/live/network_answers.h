// What a process answers at its control socket that runs networks itself, layer by layer:
// `weightpager serve NET.cfg…`, which can be given another budget, and `weightpager infer`.
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
  /// Called by the socket's thread.
  struct Source {
    const char* kind;  // in `hello`: "networks" or "inference"
    std::function<serve::ServingState()> state;
    /// Asks for another budget and returns the former one; empty: it cannot be changed.
    std::function<Result<uint64_t>(uint64_t budget_bytes)> change_budget;
  };

  explicit NetworkAnswers(Source source) : source_(std::move(source)) {}

  /// One line, without its end: docs/reference/control.md.
  std::string answer(std::string_view line);

 private:
  Source source_;
};

}  // namespace weightpager::tools
