// `--window`: a size (`1GiB`) or a share of the model (`25%`), and the check that it can work.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/memory_limit.h"
#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/pager.h"

namespace weightpager::tools {

/// The smallest window, and the size that all windows are multiples of.
struct WindowGrain {
  uint64_t bytes_min = window_bytes_min;
  uint64_t step_bytes = chunk_bytes_max;
};

/// The window in bytes. `model_bytes` is 0 if no model file is among the engine's arguments; then a
/// share is refused. A window below the smallest one or above `limit` is refused, too.
Result<uint64_t> parse_window(const std::string& text, uint64_t model_bytes,
                              const MemoryLimit& limit, const WindowGrain& grain = {});

}  // namespace weightpager::tools
