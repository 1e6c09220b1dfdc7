#include "runtime/memory/minimum_cost_flow.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/memory/orders.h"

namespace weightpager::memory {
namespace {

/// A cost above any sum of sizes.
constexpr int64_t never = INT64_MAX / 4;

/// The Hungarian method with potentials. Tensors are added one by one, each by a shortest path
/// along which other tensors change their predecessor. The places are: one for each tensor as a
/// predecessor, one for a new object of each tensor, and one at which each path begins.
class Assignment {
 public:
  explicit Assignment(Tensors tensors)
      : tensors_(tensors),
        count_(static_cast<uint32_t>(tensors.size())),
        start_(2 * count_),
        tensor_at_(start_ + 1, nobody),
        tensor_potential_(count_),
        place_potential_(start_ + 1) {}

  /// By tensor: the tensor whose object it takes over.
  std::vector<std::optional<uint32_t>> solve() {
    for (uint32_t tensor = 0; tensor < count_; ++tensor) add(tensor);
    std::vector<std::optional<uint32_t>> predecessors(count_);
    for (uint32_t place = 0; place < count_; ++place) {
      if (tensor_at_[place] != nobody) predecessors[tensor_at_[place]] = place;
    }
    return predecessors;
  }

 private:
  static constexpr uint32_t nobody = UINT32_MAX;

  int64_t cost(uint32_t tensor, uint32_t place) const {
    const auto size = static_cast<int64_t>(tensors_[tensor].size_bytes);
    if (place >= count_) return place - count_ == tensor ? size : never;
    const TensorUsage& before = tensors_[place];
    if (before.last_operation >= tensors_[tensor].first_operation) return never;
    return std::max<int64_t>(size - static_cast<int64_t>(before.size_bytes), 0);
  }

  void add(uint32_t tensor) {
    distance_.assign(start_ + 1, never);
    from_.assign(start_ + 1, start_);
    is_reached_.assign(start_ + 1, false);
    tensor_at_[start_] = tensor;
    uint32_t place = start_;
    while (tensor_at_[place] != nobody) place = reach_next(place);
    for (; place != start_; place = from_[place]) tensor_at_[place] = tensor_at_[from_[place]];
    tensor_at_[start_] = nobody;
  }

  /// Goes on from a taken place. Returns the nearest place that was not reached yet.
  uint32_t reach_next(uint32_t place) {
    is_reached_[place] = true;
    const uint32_t tensor = tensor_at_[place];
    uint32_t nearest = start_;
    for (uint32_t other = 0; other < start_; ++other) {
      if (is_reached_[other]) continue;
      if (const int64_t price = cost(tensor, other); price < never) {
        const int64_t reduced = price - tensor_potential_[tensor] - place_potential_[other];
        if (reduced < distance_[other]) {
          distance_[other] = reduced;
          from_[other] = place;
        }
      }
      if (nearest == start_ || is_nearer(other, nearest)) nearest = other;
    }
    move_potentials(distance_[nearest]);
    return nearest;
  }

  /// Of equally near places a free one is nearer: it ends the path, and a taken one would lead on.
  bool is_nearer(uint32_t place, uint32_t than) const {
    if (distance_[place] != distance_[than]) return distance_[place] < distance_[than];
    return tensor_at_[place] == nobody && tensor_at_[than] != nobody;
  }

  void move_potentials(int64_t by) {
    if (by == 0) return;
    for (uint32_t place = 0; place <= start_; ++place) {
      if (is_reached_[place]) {
        tensor_potential_[tensor_at_[place]] += by;
        place_potential_[place] -= by;
      } else if (distance_[place] < never) {
        distance_[place] -= by;
      }
    }
  }

  Tensors tensors_;
  uint32_t count_;
  uint32_t start_;
  std::vector<uint32_t> tensor_at_;  // by place
  std::vector<int64_t> tensor_potential_;
  std::vector<int64_t> place_potential_;
  // The path that is being looked for.
  std::vector<int64_t> distance_;
  std::vector<uint32_t> from_;
  std::vector<bool> is_reached_;
};

}  // namespace

SharedObjectsPlan share_by_minimum_cost_flow(Tensors tensors) {
  const auto predecessors = Assignment(tensors).solve();
  SharedObjectsPlan plan;
  plan.object.resize(tensors.size());
  for (const uint32_t tensor : by_execution(tensors)) {
    if (!predecessors[tensor]) plan.object_bytes.push_back(0);
    const auto object = predecessors[tensor] ? plan.object[*predecessors[tensor]]
                                             : static_cast<uint32_t>(plan.object_bytes.size()) - 1;
    plan.object[tensor] = object;
    plan.object_bytes[object] = std::max(plan.object_bytes[object], tensors[tensor].size_bytes);
  }
  return plan;
}

}  // namespace weightpager::memory
