// `--window`: a size (`1GiB`) or a share of the model (`25%`), and whether that can work.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/memory_limit.h"
#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/pager.h"

namespace weightpager::tools {

/// The smallest window, and what windows are multiples of.
struct WindowGrain {
  uint64_t bytes_min = window_bytes_min;
  uint64_t step_bytes = chunk_bytes_max;
};

/// The window in bytes. `model_bytes` is 0 where no model file is among the engine's arguments; a
/// share is refused then. So is what is below the smallest window or above `limit`.
Result<uint64_t> parse_window(const std::string& text, uint64_t model_bytes,
                              const MemoryLimit& limit, const WindowGrain& grain = {});

}  // namespace weightpager::tools
