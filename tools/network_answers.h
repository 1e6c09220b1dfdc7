// What `weightpager serve NET.cfg…` answers at its control socket: its networks, and another
// budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/serve/serving.h"

namespace weightpager::tools {

class NetworkAnswers {
 public:
  /// `wanted_bytes` is the budget that is asked for, which whoever runs the networks follows.
  NetworkAnswers(const serve::Serving& serving, std::atomic<uint64_t>& wanted_bytes)
      : serving_(serving), wanted_bytes_(wanted_bytes) {}

  /// One line, without its end: docs/control.md.
  std::string answer(std::string_view line);

 private:
  const serve::Serving& serving_;
  std::atomic<uint64_t>& wanted_bytes_;
};

}  // namespace weightpager::tools
