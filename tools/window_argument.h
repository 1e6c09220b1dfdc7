// `--window`: a size (`1GiB`) or a share of the model (`25%`), and whether that can work.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/memory_limit.h"
#include "pager/base/result.h"

namespace weightpager::tools {

/// The window in bytes. `model_bytes` is 0 where no model file is among the engine's arguments; a
/// share is refused then. So is what is below window_bytes_min or above `limit`.
Result<uint64_t> parse_window(const std::string& text, uint64_t model_bytes,
                              const MemoryLimit& limit);

}  // namespace weightpager::tools
