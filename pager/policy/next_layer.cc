#include "pager/policy/next_layer.h"

#include <algorithm>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

// A file without layers is read ahead in pieces of this size.
constexpr uint64_t piece_bytes = 64 * MiB;

}  // namespace

std::vector<uint32_t> NextLayer::cut() const {
  const bool has_layers = !order().layer_begins.empty();
  const uint32_t length_max = std::max(
      1u, std::min(table_.resident_max() / 3, has_layers ? order_size() : chunks_in(piece_bytes)));
  std::vector<uint32_t> ends(order().layer_begins);
  ends.push_back(order_size());
  std::vector<uint32_t> begins;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    for (; begin < end; begin += std::min(length_max, end - begin)) begins.push_back(begin);
  }
  return begins;
}

}  // namespace weightpager::policy
