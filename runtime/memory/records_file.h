// Usage records from a file, for networks that other programs run.
//
//   {"records": [[0, 1, 1605632], [1, 2, 1605632]], "known_after": [[1, 0]]}
//
// A record is a tensor's first operation, its last, and its size in bytes, rounded up as the tensor
// is to be placed. Operations are numbered in execution order. Tensors are numbered in the order of
// their records. The key known_after may be left out. It names tensors whose size is known only
// while the network runs: the tensor, and the operation after which it is known, which is before
// the tensor's first one. Other keys are ignored, so the output of `weightpager plan activations
// --json` is such a file, too.
//
// The file may come from anyone. A value that is no record is refused, and the error says where it
// is. There are limits, so that no sum overflows and planning ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "runtime/memory/usage.h"

namespace weightpager::memory {

inline constexpr uint32_t record_operation_max = 1'000'000'000;
inline constexpr uint64_t record_bytes_max = uint64_t{1} << 48;
inline constexpr size_t records_max = 2000;

struct Records {
  std::vector<TensorUsage> tensors;
  /// By tensor, as plans in steps (dynamic_plan.h) take it.
  std::vector<std::optional<uint32_t>> known_after;
};

/// `name` is what errors call the text.
Result<Records> parse_records(std::string_view text, const std::string& name);

Result<Records> read_records(const std::string& path);

}  // namespace weightpager::memory
