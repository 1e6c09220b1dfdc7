#include "runtime/memory/shared_objects.h"

#include <optional>
#include <utility>

#include "runtime/memory/object_pool.h"

namespace weightpager::memory {
namespace {

/// How far an object is from the wanted one: the first number counts, then the second.
std::pair<uint64_t, uint64_t> distance(Fit fit, uint64_t bytes, uint64_t tensor_bytes) {
  const bool is_too_small = bytes < tensor_bytes;
  const uint64_t difference = is_too_small ? tensor_bytes - bytes : bytes - tensor_bytes;
  switch (fit) {
    case Fit::largest:
      return {UINT64_MAX - bytes, 0};
    case Fit::tightest:
      return {is_too_small, difference};
    case Fit::nearest:
      break;
  }
  return {difference, is_too_small};
}

std::optional<uint32_t> choose(const ObjectPool& pool, uint32_t tensor, uint64_t tensor_bytes,
                               Fit fit) {
  std::optional<uint32_t> best;
  for (uint32_t object = 0; object < pool.size(); ++object) {
    if (!pool.is_suitable(object, tensor)) continue;
    const bool is_better = !best || distance(fit, pool.bytes(object), tensor_bytes) <
                                        distance(fit, pool.bytes(*best), tensor_bytes);
    if (is_better) best = object;
  }
  return best;
}

}  // namespace

SharedObjectsPlan share_in_order(Tensors tensors, const Order& order, Fit fit,
                                 const Earlier<SharedObjectsPlan>& earlier) {
  ObjectPool pool(tensors, earlier);
  for (const uint32_t tensor : order) {
    if (earlier.keeps(tensor)) continue;
    const auto object = choose(pool, tensor, tensors[tensor].size_bytes, fit);
    pool.assign(tensor, object ? *object : pool.add());
  }
  return pool.take_plan();
}

}  // namespace weightpager::memory
