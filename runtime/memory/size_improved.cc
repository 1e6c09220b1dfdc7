#include "runtime/memory/size_improved.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "runtime/memory/bounds.h"

namespace weightpager::memory {
namespace {

using Unsuited = SizeImprovedRules::Unsuited;
using Idle = SizeImprovedRules::Idle;

/// Special idle times: the object holds nothing before the tensor; the object cannot take the
/// tensor.
constexpr uint64_t nothing_near = UINT64_MAX - 1;
constexpr uint64_t not_suitable = UINT64_MAX;

class Sharing {
 public:
  Sharing(Tensors tensors, const SizeImprovedRules& rules,
          const Earlier<SharedObjectsPlan>& earlier)
      : tensors_(tensors),
        rules_(rules),
        order_(by_size(tensors, Ties::earlier_first)),
        plan_(earlier.plan) {
    plan_.object.resize(tensors.size());
    idle_.assign(plan_.object_bytes.size(), std::vector<uint64_t>(tensors.size(), nothing_near));
    for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
      best_.push_back(best_object(tensor));
    }
    std::erase_if(order_, [&](uint32_t tensor) { return earlier.keeps(tensor); });
    for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
      if (earlier.keeps(tensor)) assign(tensor, plan_.object[tensor]);
    }
  }

  SharedObjectsPlan run() {
    const std::vector<uint64_t> maxima = positional_maxima_bytes(tensors_);
    for (auto begin = order_.begin(); begin != order_.end();) {
      const auto end = std::find_if(begin, order_.end(), [&](uint32_t tensor) {
        return stage(maxima, tensor) != stage(maxima, *begin);
      });
      run_stage({begin, end});
      begin = end;
    }
    return std::move(plan_);
  }

 private:
  /// A tensor, an object, and how long the object is idle between the tensor and those it holds.
  struct Pair {
    uint32_t tensor = 0;
    uint32_t object = 0;
    uint64_t idle = not_suitable;
  };

  /// Ascends as sizes descend. Odd: equal to a maximum. Even: between two maxima.
  size_t stage(const std::vector<uint64_t>& maxima, uint32_t tensor) const {
    const uint64_t size_bytes = tensors_[tensor].size_bytes;
    const auto at_most = std::find_if(maxima.begin(), maxima.end(),
                                      [&](uint64_t maximum) { return maximum <= size_bytes; });
    const size_t place = 2 * static_cast<size_t>(at_most - maxima.begin());
    return at_most != maxima.end() && *at_most == size_bytes ? place + 1 : place;
  }

  void run_stage(std::vector<uint32_t> waiting) {
    while (!waiting.empty()) {
      const Pair pair = next(waiting);
      assign(pair.tensor, pair.object);
      waiting.erase(std::find(waiting.begin(), waiting.end(), pair.tensor));
    }
  }

  Pair next(const std::vector<uint32_t>& waiting) {
    std::optional<Pair> best;
    std::optional<uint32_t> unsuited;
    for (const uint32_t tensor : waiting) {
      const Pair& pair = best_[tensor];
      if (pair.idle == not_suitable) {
        if (!unsuited || key(tensor) < key(*unsuited)) unsuited = tensor;
      } else if (!best ||
                 std::tuple(pair.idle, key(tensor)) < std::tuple(best->idle, key(best->tensor))) {
        best = pair;
      }
    }
    if (unsuited && (!best || rules_.unsuited == Unsuited::first)) return {*unsuited, add(), 0};
    return *best;
  }

  Pair best_object(uint32_t tensor) const {
    Pair best{tensor, 0, not_suitable};
    for (uint32_t object = 0; object < idle_.size(); ++object) {
      if (idle_[object][tensor] < best.idle) best = {tensor, object, idle_[object][tensor]};
    }
    return best;
  }

  /// The tensor with the least key comes first.
  std::tuple<uint64_t, uint32_t> key(uint32_t tensor) const {
    const uint64_t size = rules_.larger_first ? UINT64_MAX - tensors_[tensor].size_bytes : 0;
    return {size, rules_.ties == Ties::earlier_first ? tensor : UINT32_MAX - tensor};
  }

  uint32_t add() {
    idle_.emplace_back(tensors_.size(), nothing_near);
    plan_.object_bytes.push_back(0);
    return static_cast<uint32_t>(idle_.size()) - 1;
  }

  void assign(uint32_t tensor, uint32_t object) {
    plan_.object[tensor] = object;
    uint64_t& object_bytes = plan_.object_bytes[object];
    object_bytes = std::max(object_bytes, tensors_[tensor].size_bytes);
    for (uint32_t other = 0; other < tensors_.size(); ++other) {
      uint64_t& idle = idle_[object][other];
      if (idle != not_suitable) idle = std::min(idle, idle_between(tensor, other));
      if (tensors_[tensor].is_live_with(tensors_[other])) idle = not_suitable;
      keep_best_object(other, object);
    }
  }

  /// Called after `object` has changed. A tensor looks at all objects only if it preferred this one
  /// and it has become worse.
  void keep_best_object(uint32_t tensor, uint32_t object) {
    Pair& best = best_[tensor];
    const uint64_t idle = idle_[object][tensor];
    const bool is_better = idle < best.idle || (idle == best.idle && object <= best.object);
    if (is_better) {
      best = {tensor, object, idle};
    } else if (best.object == object && best.idle != not_suitable) {
      best = best_object(tensor);
    }
  }

  /// From the end of `held` to the beginning of `other`; or, with Idle::nearest, the other way
  /// round.
  uint64_t idle_between(uint32_t held, uint32_t other) const {
    const TensorUsage& there = tensors_[held];
    const TensorUsage& coming = tensors_[other];
    if (there.last_operation < coming.first_operation) {
      return coming.first_operation - there.last_operation;
    }
    if (rules_.idle == Idle::before || coming.last_operation >= there.first_operation) {
      return nothing_near;
    }
    return there.first_operation - coming.last_operation;
  }

  Tensors tensors_;
  SizeImprovedRules rules_;
  Order order_;  // what is to be shared, the largest first
  SharedObjectsPlan plan_;
  /// By object, then tensor: how long the object would be idle beside the tensor.
  std::vector<std::vector<uint64_t>> idle_;
  /// By tensor: the object that is idle for the shortest time beside it.
  std::vector<Pair> best_;
};

}  // namespace

SharedObjectsPlan share_by_size_improved(Tensors tensors, const SizeImprovedRules& rules,
                                         const Earlier<SharedObjectsPlan>& earlier) {
  return Sharing(tensors, rules, earlier).run();
}

}  // namespace weightpager::memory
