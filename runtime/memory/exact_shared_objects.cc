#include "runtime/memory/exact_shared_objects.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "pager/base/assert.h"
#include "runtime/memory/bounds.h"
#include "runtime/memory/orders.h"

namespace weightpager::memory {
namespace {

/// Sizes of objects, the largest first.
using Sizes = std::vector<uint64_t>;

enum class Answer { yes, no, limit_reached };

/// Tries whether objects of given sizes hold all tensors of at least some size.
class Sweep {
 public:
  Sweep(Tensors tensors, uint64_t cases_max)
      : tensors_(tensors), order_(by_execution(tensors)), cases_max_(cases_max) {}

  uint64_t cases() const { return cases_; }

  Answer holds(const Sizes& sizes, uint64_t size_bytes_min) {
    sizes_ = sizes;
    steps_.clear();
    std::vector<Case> cases = {{std::vector<uint32_t>(sizes.size(), 0), 0, 0}};
    for (const uint32_t tensor : order_) {
      if (tensors_[tensor].size_bytes < size_bytes_min) continue;
      steps_.push_back({tensor, std::move(cases)});
      cases = cases_with(tensor);
      cases_ += cases.size();
      if (cases.empty()) return Answer::no;
      if (cases_ > cases_max_) return Answer::limit_reached;
    }
    last_ = std::move(cases);
    return Answer::yes;
  }

  /// The plan of the last question, which must have been about all tensors and have the answer yes.
  SharedObjectsPlan plan() const {
    SharedObjectsPlan plan{std::vector<uint32_t>(tensors_.size()), sizes_};
    // In a case, objects of one size are sorted. So walk back to find the size that each tensor
    // went into, then forward to give it one of the objects.
    std::vector<const Case*> path = {&last_.front()};
    for (size_t step = steps_.size(); step-- > 0;) {
      path.push_back(&steps_[step].cases[path.back()->parent]);
    }
    std::reverse(path.begin(), path.end());
    std::vector<uint32_t> taken_until(sizes_.size(), 0);
    for (size_t step = 0; step < steps_.size(); ++step) {
      const TensorUsage& tensor = tensors_[steps_[step].tensor];
      const uint32_t object = free_object(taken_until, path[step + 1]->object_bytes, tensor);
      plan.object[steps_[step].tensor] = object;
      taken_until[object] = end_of(tensor);
    }
    return plan;
  }

 private:
  struct Case {
    /// By object: the first operation at which it is free again; 0 where it is free already.
    /// Ascending among objects of the same size.
    std::vector<uint32_t> taken_until;
    /// The size of the object that the last tensor went into, and the case before.
    uint64_t object_bytes = 0;
    size_t parent = 0;
  };
  struct Step {
    uint32_t tensor = 0;
    std::vector<Case> cases;
  };

  static uint32_t end_of(const TensorUsage& tensor) { return tensor.last_operation + 1; }

  uint32_t free_object(const std::vector<uint32_t>& taken_until, uint64_t object_bytes,
                       const TensorUsage& tensor) const {
    for (uint32_t object = 0; object < sizes_.size(); ++object) {
      if (sizes_[object] == object_bytes && taken_until[object] <= tensor.first_operation) {
        return object;
      }
    }
    WP_ASSERT(false);
    return 0;
  }

  /// All cases that are possible after `tensor` is placed, each once. Beyond the limit, only some
  /// of them.
  std::vector<Case> cases_with(uint32_t tensor) const {
    std::map<std::vector<uint32_t>, Case> found;
    const std::vector<Case>& before = steps_.back().cases;
    for (size_t parent = 0; parent < before.size() && found.size() <= cases_max_; ++parent) {
      std::vector<uint32_t> taken_until = before[parent].taken_until;
      for (uint32_t& until : taken_until) {
        if (until <= tensors_[tensor].first_operation) until = 0;
      }
      for (size_t object = 0; object < sizes_.size(); ++object) {
        if (sizes_[object] < tensors_[tensor].size_bytes) break;
        if (taken_until[object] != 0) continue;
        if (object > 0 && sizes_[object] == sizes_[object - 1] && taken_until[object - 1] == 0) {
          continue;  // As good as the one before.
        }
        std::vector<uint32_t> after = taken_until;
        after[object] = end_of(tensors_[tensor]);
        sort_alike(after);
        found.try_emplace(after, Case{after, sizes_[object], parent});
      }
    }
    std::vector<Case> cases;
    for (auto& [key, it] : found) cases.push_back(std::move(it));
    return cases;
  }

  void sort_alike(std::vector<uint32_t>& taken_until) const {
    for (size_t begin = 0; begin < sizes_.size();) {
      size_t end = begin;
      while (end < sizes_.size() && sizes_[end] == sizes_[begin]) ++end;
      std::sort(taken_until.begin() + static_cast<ptrdiff_t>(begin),
                taken_until.begin() + static_cast<ptrdiff_t>(end));
      begin = end;
    }
  }

  Tensors tensors_;
  Order order_;
  uint64_t cases_max_;
  uint64_t cases_ = 0;
  // All of the last question.
  Sizes sizes_;
  std::vector<Step> steps_;
  std::vector<Case> last_;
};

Sizes distinct_sizes(Tensors tensors) {
  Sizes sizes;
  for (const TensorUsage& tensor : tensors) sizes.push_back(tensor.size_bytes);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// The objects of the largest `levels` distinct sizes of tensors.
struct Choice {
  /// No complete choice that begins with this one has a smaller sum.
  uint64_t at_least_bytes = 0;
  size_t levels = 0;
  Sizes sizes;

  /// For a queue whose top has the smallest sum; of equal sums, the choice nearest to complete.
  bool operator<(const Choice& other) const {
    return std::tie(other.at_least_bytes, levels, other.sizes) <
           std::tie(at_least_bytes, other.levels, sizes);
  }
};

class Search {
 public:
  Search(Tensors tensors, SharedObjectsPlan known, uint64_t cases_max)
      : tensors_(tensors),
        levels_(distinct_sizes(tensors)),
        maxima_(positional_maxima_bytes(tensors)),
        known_(std::move(known)),
        sweep_(tensors, cases_max) {}

  ExactSharing run() {
    push({}, 0);
    while (!queue_.empty()) {
      const Choice choice = queue_.top();
      queue_.pop();
      if (choice.at_least_bytes >= known_.total_bytes()) break;
      const Answer answer = holds(choice);
      if (answer == Answer::limit_reached) {
        return {std::move(known_), false, choice.at_least_bytes, sweep_.cases()};
      }
      if (answer == Answer::yes && choice.levels == levels_.size()) return found();
      if (answer == Answer::yes) push(choice.sizes, choice.levels + 1);
      if (choice.levels > 0) push_with_one_more(choice);
    }
    const uint64_t total_bytes = known_.total_bytes();
    return {std::move(known_), true, total_bytes, sweep_.cases()};
  }

 private:
  Answer holds(const Choice& choice) {
    if (choice.levels == 0) return Answer::yes;
    return sweep_.holds(choice.sizes, levels_[choice.levels - 1]);
  }

  ExactSharing found() {
    SharedObjectsPlan plan = sweep_.plan();
    const uint64_t total_bytes = plan.total_bytes();
    return {std::move(plan), true, total_bytes, sweep_.cases()};
  }

  /// Fills up with objects of the last level's size, as many as the maxima ask for.
  void push(Sizes sizes, size_t levels) {
    const uint64_t last_bytes = levels == 0 ? UINT64_MAX : levels_[levels - 1];
    while (sizes.size() < maxima_.size() && maxima_[sizes.size()] >= last_bytes) {
      sizes.push_back(last_bytes);
    }
    uint64_t sum = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    for (size_t k = sizes.size(); k < maxima_.size(); ++k) sum += maxima_[k];
    queue_.push({sum, levels, std::move(sizes)});
  }

  void push_with_one_more(Choice choice) {
    choice.sizes.push_back(levels_[choice.levels - 1]);
    push(std::move(choice.sizes), choice.levels);
  }

  Tensors tensors_;
  Sizes levels_;
  Sizes maxima_;
  SharedObjectsPlan known_;
  Sweep sweep_;
  std::priority_queue<Choice> queue_;
};

}  // namespace

ExactSharing share_exactly(Tensors tensors, SharedObjectsPlan known, uint64_t cases_max) {
  return Search(tensors, std::move(known), cases_max).run();
}

}  // namespace weightpager::memory
