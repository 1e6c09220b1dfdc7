#include "pager/policy/double_buffer.h"

#include <algorithm>

namespace weightpager::policy {

std::vector<uint32_t> DoubleBuffer::cut() const {
  const uint32_t window = table_.resident_max();
  const uint32_t half = std::max(window > 2 ? (window - 2) / 2 : 1u, 1u);
  std::vector<uint32_t> begins;
  for (uint32_t begin = 0; begin < order_size(); begin += half) begins.push_back(begin);
  return begins;
}

}  // namespace weightpager::policy
