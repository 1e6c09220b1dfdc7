#include "pager/simulate/divide_matrix.h"

#include "pager/base/units.h"
#include "pager/simulate/trace.h"

namespace weightpager::simulate {
namespace {

constexpr uint64_t worth_dividing_bytes = 64 * KiB;
// 64 rows of 8 KiB: what ggml's threads take at once of a matrix of 4096 columns with 16 bits each.
constexpr uint64_t piece_bytes = 512 * KiB;
// With fewer pieces for each thread ggml deals out strips.
constexpr uint64_t pieces_of_thread_min = 4;

}  // namespace

std::vector<MatrixShare> divide_matrix(uint64_t size_bytes, uint32_t threads, Division division) {
  if (size_bytes == 0) return {};
  if (size_bytes < worth_dividing_bytes) return {{0, size_bytes, 0}};
  const uint64_t pieces = (size_bytes + piece_bytes - 1) / piece_bytes;
  const bool is_taken = division == Division::pieces && pieces >= pieces_of_thread_min * threads;
  const uint64_t count = is_taken ? pieces : threads;
  std::vector<MatrixShare> shares;
  shares.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t thread = is_taken ? any_thread : static_cast<uint32_t>(i);
    shares.push_back({size_bytes * i / count, size_bytes * (i + 1) / count, thread});
  }
  return shares;
}

}  // namespace weightpager::simulate
