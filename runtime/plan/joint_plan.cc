#include "runtime/plan/joint_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/ops/cpu/convolution_candidate.h"
#include "runtime/pipeline/pinning.h"
#include "runtime/pipeline/tiles.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/integer_program.h"
#include "runtime/plan/network_instance.h"
#include "runtime/plan/select.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {
namespace {

using network::Layer;
using network::Network;
using pipeline::Inferences;
using pipeline::Pipeline;
using pipeline::UnitCosts;
using pipeline::WindowPlan;

// In which weights are told apart while fronts are made; what is found is then taken exactly.
constexpr uint64_t quantum_bytes = 64 * KiB;
// Caps on the arena and on pieces of weights that fronts are made for, by how many nodes have to be
// cut for a front: each makes it take four times as long.
struct CapCounts {
  size_t arenas;
  size_t pieces;
  // In which the plans that this is compared with tell memory apart: a front for each workspace.
  uint64_t others_quantum_bytes;
};
constexpr CapCounts cap_counts[] = {
    {12, 4, quantum_bytes}, {8, 3, 8 * quantum_bytes}, {4, 2, 32 * quantum_bytes}};
// Windows that are planned with few rings and pins, at most, and selections that are tried again
// with more. Of two in one front whose bounds are nearer to each other than this, one is enough.
constexpr size_t windows_max = 160;
constexpr size_t refined_max = 3;
constexpr double bounds_apart = 1.0005;
constexpr pipeline::PlanTrials few_trials = {.ring_ratio = 0.8, .rates_per_octave = 4};
// Layers are cut only as far as the window makes it necessary.
constexpr uint64_t tile_sizes[] = {round_down(UINT64_MAX, os_page_bytes), 2 * MiB, 512 * KiB,
                                   128 * KiB};
// What a read takes for being one more, what lies between two kernels (the executor's word to the
// computing thread; `infer --trace`, 2026-11-22), and what cutting a layer in two costs its kernel:
// OpenMP's word to the other threads, pictures that another processor has in its cache (all in
// memory, on two processors: 8 µs for each of GoogLeNet's 110 pieces). Of whole layers the latter
// is in their times (in_place.h).
constexpr uint64_t read_ns_per_tile = 10'000;
constexpr uint64_t start_ns_per_piece = 1'000;
constexpr uint64_t kernel_ns_per_tile = 9'000;
constexpr uint32_t points_by_integer_programming = 12;
// What a change of layout takes for which there is no room. More than any network, and still exact
// in sums.
constexpr double forbidden_ns = 1e14;

// What a selection comes to before it has a window.
struct Option {
  std::vector<uint32_t> candidates;
  double compute_ns = 0;
  uint64_t weight_bytes = 0;
  /// The largest that cannot come in tiles.
  uint64_t largest_whole_bytes = 0;
};

struct Tried {
  const Option* option = nullptr;
  JointPlan plan;
};

// The best of what was tried: those that are tried again with finer rings and pins.
class Best {
 public:
  void add(Tried tried) {
    all_.push_back(std::move(tried));
    std::stable_sort(all_.begin(), all_.end(), [](const Tried& left, const Tried& right) {
      return left.plan.delay_ns < right.plan.delay_ns;
    });
    if (all_.size() > refined_max) all_.pop_back();
  }

  const std::vector<Tried>& all() const { return all_; }
  uint64_t delay_ns() const { return all_.empty() ? UINT64_MAX : all_.front().plan.delay_ns; }
  /// Of what would still be among them.
  uint64_t delay_ns_max() const {
    return all_.size() < refined_max ? UINT64_MAX : all_.back().plan.delay_ns;
  }

 private:
  std::vector<Tried> all_;
};

std::vector<uint64_t> thinned(std::set<uint64_t> values, size_t most) {
  const std::vector<uint64_t> all(values.begin(), values.end());
  if (all.size() <= most) return all;
  // Each the same factor above the one before; always the first and the last.
  std::set<uint64_t> kept;
  const double ratio = static_cast<double>(all.back()) / static_cast<double>(all.front());
  for (size_t i = 0; i < most; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(most - 1);
    const auto wanted =
        static_cast<uint64_t>(static_cast<double>(all.front()) * std::pow(ratio, exponent));
    kept.insert(*(std::upper_bound(all.begin(), all.end(), wanted) - 1));
  }
  kept.insert(all.back());
  return {kept.begin(), kept.end()};
}

/// Some candidates of an instance, and which they were.
struct Filtered {
  Instance instance;
  std::vector<std::vector<uint32_t>> kept;  // by node

  bool has_all_nodes() const {
    return std::none_of(kept.begin(), kept.end(), [](const auto& it) { return it.empty(); });
  }
  std::vector<uint32_t> original(std::vector<uint32_t> candidates) const {
    for (size_t node = 0; node < kept.size(); ++node) {
      candidates[node] = kept[node][candidates[node]];
    }
    return candidates;
  }
};

template <typename Keep>
Filtered filtered(const Instance& instance, Keep keep) {
  Filtered it{.instance = {.layouts = instance.layouts, .nodes = {}, .edges = instance.edges},
              .kept = {}};
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    const Node& from = instance.nodes[node];
    Node& to = it.instance.nodes.emplace_back(Node{{}, from.name});
    std::vector<uint32_t>& kept = it.kept.emplace_back();
    for (uint32_t candidate = 0; candidate < from.candidates.size(); ++candidate) {
      if (!keep(node, candidate)) continue;
      to.candidates.push_back(from.candidates[candidate]);
      kept.push_back(candidate);
    }
  }
  return it;
}

}  // namespace

class JointPlanner::Implementation {
 public:
  Implementation(const Network& network, const Profile& profile, const JointSettings& settings)
      : network_(network),
        profile_(profile),
        settings_(settings),
        instance_(make_instance(network, profile, Strategy::whole_network, 0).instance) {
    complete_instance();
    if (auto cuts = plan::cuts_needed(instance_)) cuts_needed_ = *std::move(cuts);
  }

  Status prepare() {
    if (cuts_needed_) {
      choose_caps();
    } else if (Status done = use_integer_programming(); !done) {
      return done;
    }
    return find_ends();
  }

  uint64_t least_bytes() const { return least_bytes_; }
  uint64_t most_bytes() const { return most_bytes_; }
  const std::string& forced_by() const { return forced_by_; }
  const PlanningWork& work() const { return work_; }

  Result<JointPlan> plan(uint64_t budget_bytes) {
    if (budget_bytes < least_bytes_) return tl::make_unexpected(too_small(budget_bytes));
    Best best;
    const auto consider = [&](const Option& option, const pipeline::PlanTrials& trials) {
      auto plan = try_out(option, budget_bytes, trials);
      if (plan) best.add({&option, *std::move(plan)});
    };
    std::set<std::vector<uint32_t>> seen;
    const auto try_roughly = [&](const Option& option) {
      if (!seen.insert(option.candidates).second) return;
      pipeline::PlanTrials trials = few_trials;
      trials.delay_ns_max = best.delay_ns_max();
      consider(option, trials);
    };
    const auto try_finely = [&](const Option& option) {
      consider(option, {.delay_ns_max = best.delay_ns()});
    };
    const std::vector<Option> others = one_after_another(budget_bytes);
    try_roughly(least_);
    for (const auto& [candidates, option] : found_before_) try_roughly(option);
    for (const Option& it : others) try_roughly(it);
    try_in_order(budget_bytes, best, try_roughly);
    for (const Tried& it : std::vector<Tried>(best.all())) try_finely(*it.option);
    for (const Option& it : others) try_finely(it);
    const Tried& found = best.all().front();
    found_before_.try_emplace(found.option->candidates, *found.option);
    JointPlan plan = found.plan;
    plan.bound_ns = least_delay_ns(budget_bytes, plan.delay_ns);
    return plan;
  }

  std::vector<JointPlan> plans_one_after_another(uint64_t budget_bytes) {
    std::vector<JointPlan> plans;
    for (const Option& option : one_after_another(budget_bytes)) {
      auto tried = try_out(option, budget_bytes, {});
      if (tried) plans.push_back(*std::move(tried));
    }
    return plans;
  }

 private:
  static uint32_t node_of(uint32_t layer) { return NetworkInstance::node_of_layer(layer); }
  const Candidate& chosen(const std::vector<uint32_t>& candidates, uint32_t layer) const {
    return instance_.nodes[node_of(layer)].candidates[candidates[node_of(layer)]];
  }
  const Layer& layer_of(uint32_t node) const { return network_.layers[node - 1]; }

  // Times of whole layers, weights in pages and without biases (which stay), and as workspace what
  // the arena must hold while the layer runs.
  void complete_instance() {
    live_bytes_ = live_by_layer();
    own_workspace_bytes_.resize(instance_.nodes.size());
    own_workspace_bytes_[0].resize(1);
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      const Layer& layer = network_.layers[i];
      const std::string key = other_key(layer);
      const double others_ns = key.empty() ? 0 : fastest_ns(profile_.others.at(key));
      const bool is_convolution = std::holds_alternative<network::Convolutional>(layer.operation);
      const bool is_last = i + 1 == network_.layers.size();
      std::vector<Candidate>& candidates = instance_.nodes[node_of(i)].candidates;
      for (size_t c = 0; c < candidates.size(); ++c) {
        Candidate& it = candidates[c];
        it.time_ns += others_ns;
        // What comes out of a network is in Darknet's layout.
        if (is_last && it.layout_out != 0) it.time_ns += forbidden_ns;
        uint64_t weight_bytes = layer.weights() * sizeof(float);
        if (is_convolution) {
          weight_bytes = profile_.convolutions.at(convolution_key(layer))[c].traits.packed_bytes;
        } else if (layer.weights() > 0) {
          it.workspace_bytes =
              ops::Convolution(layer, settings_.threads).scratch_floats() * sizeof(float);
        }
        it.held_bytes = round_up(weight_bytes, os_page_bytes);
        own_workspace_bytes_[node_of(i)].push_back(it.workspace_bytes);
        it.workspace_bytes += live_bytes_[i];
      }
    }
  }

  // In Darknet's layouts. In others nothing is smaller.
  std::vector<uint64_t> live_by_layer() const {
    const memory::ActivationLayout layout = memory::lay_out(network_);
    std::vector<uint64_t> live(network_.layers.size());
    for (const memory::TensorUsage& tensor : layout.tensors) {
      const uint32_t end =
          std::min<uint32_t>(tensor.last_operation + 1, static_cast<uint32_t>(live.size()));
      for (uint32_t i = tensor.first_operation; i < end; ++i) live[i] += tensor.size_bytes;
    }
    return live;
  }

  // Weights that come in tiles need no room as a whole.
  bool is_in_tiles(uint32_t node, uint32_t candidate) const {
    if (node == 0) return true;
    const Layer& layer = layer_of(node);
    if (layer.weights() == 0) return true;
    if (!network::can_be_cut(layer)) return false;
    if (!std::holds_alternative<network::Convolutional>(layer.operation)) return true;
    const auto& measured = profile_.convolutions.at(convolution_key(layer));
    return measured[candidate].traits.name == ops::in_tiles;
  }
  uint64_t whole_bytes(uint32_t node, uint32_t candidate) const {
    return is_in_tiles(node, candidate) ? 0
                                        : instance_.nodes[node].candidates[candidate].held_bytes;
  }

  void choose_caps() {
    std::set<uint64_t> arenas, wholes;
    uint64_t least_arena = 0;
    uint64_t least_whole = 0;
    for (uint32_t node = 0; node < instance_.nodes.size(); ++node) {
      uint64_t least_here = UINT64_MAX;
      uint64_t least_whole_here = UINT64_MAX;
      for (uint32_t c = 0; c < instance_.nodes[node].candidates.size(); ++c) {
        const Candidate& it = instance_.nodes[node].candidates[c];
        arenas.insert(round_up(it.workspace_bytes, quantum_bytes));
        wholes.insert(whole_bytes(node, c));
        least_here = std::min(least_here, it.workspace_bytes);
        least_whole_here = std::min(least_whole_here, whole_bytes(node, c));
      }
      least_arena = std::max(least_arena, least_here);
      least_whole = std::max(least_whole, least_whole_here);
    }
    for (const Edge& edge : instance_.edges) {
      for (uint32_t layout = 0; layout < instance_.layouts; ++layout) {
        arenas.insert(round_up(arena_with_change(edge, layout), quantum_bytes));
      }
    }
    least_arena_bytes_ = least_arena;
    arenas.erase(arenas.begin(), arenas.lower_bound(least_arena));
    wholes.erase(wholes.begin(), wholes.lower_bound(least_whole));
    arena_caps_ = thinned(std::move(arenas), cap_counts[cuts_needed_->size()].arenas);
    piece_caps_ = thinned(std::move(wholes), cap_counts[cuts_needed_->size()].pieces);
    // The last one allows everything, and is the one that bounds are from.
    std::reverse(piece_caps_.begin(), piece_caps_.end());
  }

  // While a layer runs that takes in a copy of the tensor in this layout.
  uint64_t arena_with_change(const Edge& edge, uint32_t layout) const {
    const auto& shape = edge.from == 0 ? network_.input : layer_of(edge.from).output;
    return live_bytes_[edge.to - 1] + ops::picture_bytes(shape, static_cast<ops::Layout>(layout));
  }

  void forbid_changes(Instance& instance, uint64_t arena_bytes_max) const {
    for (Edge& edge : instance.edges) {
      for (uint32_t to = 0; to < instance.layouts; ++to) {
        if (arena_with_change(edge, to) <= arena_bytes_max) continue;
        for (uint32_t from = 0; from < instance.layouts; ++from) {
          if (from != to) edge.change_ns[from * instance.layouts + to] = forbidden_ns;
        }
      }
    }
  }

  const std::vector<Option>& front(size_t arena_cap, size_t piece_cap) {
    const auto [found, is_new] = fronts_.try_emplace({arena_cap, piece_cap});
    if (!is_new) return found->second;
    ++work_.fronts;
    Filtered some = filtered(instance_, [&](uint32_t node, uint32_t candidate) {
      return whole_bytes(node, candidate) <= piece_caps_[piece_cap];
    });
    if (!some.has_all_nodes()) return found->second;
    forbid_changes(some.instance, arena_caps_[arena_cap]);
    const Reduced reduced =
        reduce(some.instance, *cuts_needed_,
               {.workspace_bytes_max = arena_caps_[arena_cap], .quantum_bytes = quantum_bytes});
    for (const Label& label : reduced.front) {
      if (label.time_ns >= forbidden_ns) continue;
      found->second.push_back(option_of(some.original(reduced.candidates(label))));
    }
    return found->second;
  }

  Option option_of(std::vector<uint32_t> candidates) const {
    const Selection selection = evaluate(instance_, candidates);
    const double starts_ns = static_cast<double>(network_.layers.size() * start_ns_per_piece);
    Option option{std::move(candidates), selection.time_ns + starts_ns, selection.held_bytes};
    for (uint32_t node = 0; node < instance_.nodes.size(); ++node) {
      option.largest_whole_bytes =
          std::max(option.largest_whole_bytes, whole_bytes(node, option.candidates[node]));
    }
    return option;
  }

  // Networks that cannot be reduced: some points of the front, without caps.
  Status use_integer_programming() {
    auto front = front_of_any_network(instance_, quantum_bytes, points_by_integer_programming);
    if (!front) return forward_error(std::move(front));
    arena_caps_ = {UINT64_MAX};
    piece_caps_ = {UINT64_MAX};
    std::vector<Option>& options = fronts_[{0, 0}];
    for (Selection& it : *front) options.push_back(option_of(std::move(it.candidates)));
    return {};
  }

  // Under a cap the arena is larger than the cap before, or its selections are under that, too.
  uint64_t window_bytes_max(uint64_t budget_bytes, size_t arena) const {
    const uint64_t arena_bytes = arena == 0 ? least_arena_bytes_ : arena_caps_[arena - 1];
    return budget_bytes - std::min(budget_bytes, arena_bytes);
  }

  // Of caps on the arena.
  size_t caps_within(uint64_t budget_bytes) const {
    size_t caps = 1;
    while (caps < arena_caps_.size() && arena_caps_[caps - 1] <= budget_bytes) ++caps;
    return caps;
  }

  // What is next: a selection, or a front that may not be known yet; and what all that is there
  // takes at least.
  struct Next {
    double bound_ns = 0;
    const Option* option = nullptr;
    size_t arena = 0;
    size_t piece = 0;

    // A heap has the greatest on top.
    bool operator<(const Next& other) const { return bound_ns > other.bound_ns; }
  };

  // Selections of all fronts in the order of their bounds, until none can be better than what was
  // found. With a tighter cap a front is nowhere better: what bounds the looser one bounds it, too,
  // and it is made only when its turn comes.
  template <typename TryOut>
  void try_in_order(uint64_t budget_bytes, const Best& best, TryOut try_out) {
    std::priority_queue<Next> queue;
    const auto add_front = [&](const std::vector<Option>& looser, size_t arena, size_t piece) {
      const uint64_t window_bytes = window_bytes_max(budget_bytes, arena);
      queue.push({least_overlap_bound_ns(looser, window_bytes), nullptr, arena, piece});
    };
    const size_t caps = caps_within(budget_bytes);
    for (size_t arena = 0; arena < caps; ++arena) add_front(front(caps - 1, 0), arena, 0);
    const size_t windows_end = work_.windows + windows_max;
    while (!queue.empty() && work_.windows < windows_end) {
      const Next next = queue.top();
      queue.pop();
      if (next.bound_ns >= static_cast<double>(best.delay_ns())) break;
      if (next.option != nullptr) {
        try_out(*next.option);
        continue;
      }
      const std::vector<Option>& options = front(next.arena, next.piece);
      const uint64_t window_bytes = window_bytes_max(budget_bytes, next.arena);
      for (const Next& it : ranked(options, window_bytes, best.delay_ns())) queue.push(it);
      if (next.piece + 1 < piece_caps_.size()) add_front(options, next.arena, next.piece + 1);
    }
  }

  // Those that may be faster than that, smallest bound first.
  std::vector<Next> ranked(const std::vector<Option>& options, uint64_t window_bytes,
                           uint64_t delay_ns_max) const {
    std::vector<Next> ranked;
    for (const Option& option : options) {
      if (option.largest_whole_bytes > window_bytes) continue;
      const double bound_ns = bound_of(option, window_bytes, static_cast<double>(delay_ns_max));
      if (bound_ns < static_cast<double>(delay_ns_max)) ranked.push_back({bound_ns, &option});
    }
    std::sort(ranked.rbegin(), ranked.rend());
    double last_ns = 0;
    std::erase_if(ranked, [&](const Next& it) {
      if (it.bound_ns < last_ns * bounds_apart) return true;
      last_ns = it.bound_ns;
      return false;
    });
    return ranked;
  }

  // Exactly, or at least that much.
  double bound_of(const Option& option, uint64_t window_bytes, double enough_ns) const {
    const double overlap_ns = overlap_bound_ns(option, window_bytes);
    if (overlap_ns >= enough_ns) return overlap_ns;
    return std::max(overlap_ns, order_bound_ns(layers_of(option), window_bytes));
  }

  double read_ns(double bytes) const { return bytes / settings_.read_bytes_per_s * 1e9; }

  // What is not pinned is read in each pass.
  double overlap_bound_ns(const Option& option, uint64_t window_bytes) const {
    const uint64_t read_bytes = option.weight_bytes - std::min(option.weight_bytes, window_bytes);
    const auto bytes = static_cast<double>(read_bytes);
    return std::max(option.compute_ns + bytes * settings_.taken.ns_per_byte, read_ns(bytes));
  }

  double least_overlap_bound_ns(const std::vector<Option>& options, uint64_t window_bytes) const {
    double least_ns = std::numeric_limits<double>::infinity();
    for (const Option& option : options) {
      least_ns = std::min(least_ns, overlap_bound_ns(option, window_bytes));
    }
    return least_ns;
  }

  // By order: weights are there by their window, whether in a ring or pinned.
  double order_bound_ns(const std::vector<UnitCosts>& layers, uint64_t window_bytes) const {
    const auto ahead_ns = static_cast<uint64_t>(read_ns(static_cast<double>(window_bytes))) + 1;
    return static_cast<double>(pipeline::least_delay_in_order_ns(layers, ahead_ns));
  }

  UnitCosts layer_costs(uint64_t weight_bytes, double compute_ns) const {
    return {.size_bytes = weight_bytes,
            .read_ns = static_cast<uint64_t>(read_ns(static_cast<double>(weight_bytes))),
            .kernel_ns = static_cast<uint64_t>(compute_ns)};
  }

  std::vector<UnitCosts> layers_of(const Option& option) const {
    std::vector<UnitCosts> layers;
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      const Candidate& it = chosen(option.candidates, i);
      layers.push_back(layer_costs(it.held_bytes, it.time_ns));
    }
    return layers;
  }

  // Every layer at its fastest and, by another candidate, at its smallest.
  std::vector<UnitCosts> ideal_layers() const {
    std::vector<UnitCosts> layers;
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      double least_ns = std::numeric_limits<double>::infinity();
      uint64_t least_bytes = UINT64_MAX;
      for (const Candidate& it : instance_.nodes[node_of(i)].candidates) {
        least_ns = std::min(least_ns, it.time_ns);
        least_bytes = std::min(least_bytes, it.held_bytes);
      }
      layers.push_back(layer_costs(least_bytes, least_ns));
    }
    return layers;
  }

  // For all selections there are, where it is less than `delay_ns`: the least overlap bound of all
  // fronts, which need not be that of any other cap than the first on pieces; and in order, with
  // every layer at its fastest before and at its smallest after.
  uint64_t least_delay_ns(uint64_t budget_bytes, uint64_t delay_ns) {
    auto least_ns = static_cast<double>(delay_ns);
    const size_t caps = caps_within(budget_bytes);
    for (size_t arena = caps; arena-- > 0;) {
      const uint64_t window_bytes = window_bytes_max(budget_bytes, arena);
      if (least_overlap_bound_ns(front(caps - 1, 0), window_bytes) >= least_ns) continue;
      least_ns = std::min(least_ns, least_overlap_bound_ns(front(arena, 0), window_bytes));
    }
    const double in_order_ns = order_bound_ns(ideal_layers(), window_bytes_max(budget_bytes, 0));
    return std::min(delay_ns, static_cast<uint64_t>(std::max(least_ns, in_order_ns)));
  }

  std::vector<LayerChoice> choices(const std::vector<uint32_t>& candidates) const {
    auto choices = choices_of(network_, profile_, instance_, candidates);
    for (LayerChoice& it : choices) {
      if (it.computed_by == ops::in_tiles) it.computed_by.clear();
    }
    return choices;
  }

  std::vector<pipeline::TileableLayer> tileable(const std::vector<uint32_t>& candidates) const {
    std::vector<pipeline::TileableLayer> layers;
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      const Candidate& it = chosen(candidates, i);
      const auto bytes = static_cast<double>(it.held_bytes);
      const auto channels = static_cast<uint32_t>(network_.layers[i].channels_with_bias());
      layers.push_back(
          {{.size_bytes = it.held_bytes,
            .read_ns = static_cast<uint64_t>(bytes / settings_.read_bytes_per_s * 1e9),
            .kernel_ns = static_cast<uint64_t>(it.time_ns) + start_ns_per_piece},
           is_in_tiles(node_of(i), candidates[node_of(i)]) ? std::max(channels, 1u) : 1,
           ops::channel_step(network_.layers[i])});
    }
    for (const Edge& edge : instance_.edges) {
      const Candidate& from = instance_.nodes[edge.from].candidates[candidates[edge.from]];
      const Candidate& to = instance_.nodes[edge.to].candidates[candidates[edge.to]];
      layers[edge.to - 1].costs.kernel_ns +=
          static_cast<uint64_t>(edge.change_ns[from.layout_out * instance_.layouts + to.layout_in]);
    }
    return layers;
  }

  struct Arena {
    uint64_t bytes = 0;
    uint64_t activation_bytes = 0;
  };

  Arena arena_of(const std::vector<LayerChoice>& choices,
                 const std::vector<uint64_t>& workspace_bytes) {
    std::vector<uint64_t> key = workspace_bytes;
    for (const LayerChoice& it : choices) {
      key.push_back(static_cast<uint64_t>(it.layout_in) << 8 |
                    static_cast<uint64_t>(it.layout_out));
    }
    const auto [found, is_new] = arenas_.try_emplace(std::move(key));
    if (!is_new) return found->second;
    const std::vector<uint64_t> none(workspace_bytes.size());
    found->second.bytes =
        memory::lay_out(network_, memory_of(network_, choices, workspace_bytes)).plan.total_bytes;
    found->second.activation_bytes =
        memory::lay_out(network_, memory_of(network_, choices, none)).plan.total_bytes;
    return found->second;
  }

  std::vector<uint64_t> workspaces(const std::vector<uint32_t>& candidates) const {
    std::vector<uint64_t> bytes;
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      bytes.push_back(own_workspace_bytes_[node_of(i)][candidates[node_of(i)]]);
    }
    return bytes;
  }

  struct Cut {
    std::vector<pipeline::Tile> tiles;
    std::vector<UnitCosts> costs;
    uint64_t largest_bytes = 0;
    /// Of those that smaller tiles can be made of.
    uint64_t largest_in_tiles_bytes = 0;
  };

  Cut cut(const std::vector<pipeline::TileableLayer>& layers, uint64_t tile_bytes) const {
    Cut it;
    it.tiles = pipeline::split_into_tiles(layers, {.tile_bytes_max = tile_bytes,
                                                   .read_ns_per_tile = read_ns_per_tile,
                                                   .kernel_ns_per_tile = kernel_ns_per_tile});
    // A tile that begins or ends within a page takes the whole page along.
    for (pipeline::Tile& tile : it.tiles) {
      const bool is_whole =
          tile.first_channel == 0 && tile.end_channel == layers[tile.layer].output_channels;
      if (!is_whole) tile.costs.size_bytes += os_page_bytes;
      if (tile.costs.size_bytes > 0) {
        tile.costs.read_latency_ns = settings_.read_latency_ns;
        tile.costs.taken_ns = taken_ns(tile.costs.size_bytes);
      }
      it.largest_bytes = std::max(it.largest_bytes, tile.costs.size_bytes);
      if (layers[tile.layer].output_channels == 1) continue;
      it.largest_in_tiles_bytes = std::max(it.largest_in_tiles_bytes, tile.costs.size_bytes);
    }
    it.costs = pipeline::costs_of(it.tiles);
    return it;
  }

  // Nothing if the budget is too small for it, or it for what is asked for.
  std::optional<JointPlan> try_out(const Option& option, uint64_t budget_bytes,
                                   const pipeline::PlanTrials& trials) {
    const std::vector<uint32_t>& candidates = option.candidates;
    JointPlan plan{.choices = choices(candidates)};
    const std::vector<uint64_t> workspace_bytes = workspaces(candidates);
    const Arena arena = arena_of(plan.choices, workspace_bytes);
    if (arena.bytes > budget_bytes) return std::nullopt;
    plan.arena_bytes = arena.bytes;
    plan.activation_bytes = arena.activation_bytes;
    plan.workspace_bytes = *std::max_element(workspace_bytes.begin(), workspace_bytes.end());
    const uint64_t window_bytes = budget_bytes - arena.bytes;
    const auto delay_ns_max = static_cast<double>(trials.delay_ns_max);
    if (bound_of(option, window_bytes, delay_ns_max) > delay_ns_max) return std::nullopt;
    const auto layers = tileable(candidates);
    std::optional<Cut> best_cut;
    std::optional<WindowPlan> best;
    pipeline::PlanTrials still = trials;
    for (const uint64_t tile_bytes : tile_sizes) {
      Cut cut = this->cut(layers, tile_bytes);
      ++work_.windows;
      auto window = pipeline::plan_window(Pipeline::two_stage, cut.costs, window_bytes, still,
                                          Inferences::in_a_row);
      const bool is_fine = 4 * cut.largest_in_tiles_bytes <= window_bytes;
      if (window && (!best || window->delay_ns < best->delay_ns)) {
        best = std::move(*window);
        still.delay_ns_max = best->delay_ns;
        best_cut = std::move(cut);
      }
      if (is_fine) break;
    }
    if (!best) return std::nullopt;
    for (const pipeline::TileableLayer& it : layers) {
      plan.compute_ns += it.costs.kernel_ns;
      plan.weight_bytes += it.costs.size_bytes;
    }
    for (const pipeline::Tile& tile : best_cut->tiles) {
      const auto channels = static_cast<uint32_t>(network_.layers[tile.layer].channels_with_bias());
      const bool is_whole =
          tile.first_channel == 0 && tile.end_channel == layers[tile.layer].output_channels;
      plan.pieces.push_back(
          {tile.layer, tile.first_channel, is_whole ? channels : tile.end_channel});
      plan.kernel_ns.push_back(tile.costs.kernel_ns);
    }
    plan.is_pinned = best->is_pinned;
    plan.rings = best->rings;
    plan.pinned_bytes = best->pinned_bytes;
    plan.read_bytes_per_pass = best->bytes_per_pass;
    plan.delay_ns = best->delay_ns;
    for (const UnitCosts& it : pipeline::after_first_pass(best_cut->costs, best->is_pinned)) {
      plan.reads_per_pass += it.size_bytes > 0;
    }
    return plan;
  }

  uint64_t taken_ns(uint64_t bytes) const {
    return static_cast<uint64_t>(settings_.taken.ns_per_read +
                                 static_cast<double>(bytes) * settings_.taken.ns_per_byte);
  }

  // The instance as it is planned without a window: workspace alone, by strategy.
  Instance alone(Strategy strategy) const {
    Instance it = instance_;
    for (uint32_t node = 0; node < it.nodes.size(); ++node) {
      for (uint32_t c = 0; c < it.nodes[node].candidates.size(); ++c) {
        Candidate& candidate = it.nodes[node].candidates[c];
        candidate.workspace_bytes = own_workspace_bytes_[node][c];
        if (strategy == Strategy::whole_network) continue;
        candidate.time_ns +=
            static_cast<double>(candidate.held_bytes) / settings_.read_bytes_per_s * 1e9;
        candidate.workspace_bytes += candidate.held_bytes;
        candidate.held_bytes = 0;
      }
    }
    return it;
  }

  std::vector<uint32_t> in_tiles_everywhere() const {
    std::vector<uint32_t> candidates(instance_.nodes.size());
    for (uint32_t node = 1; node < candidates.size(); ++node) {
      for (uint32_t c = 0; c < instance_.nodes[node].candidates.size(); ++c) {
        const Candidate& it = instance_.nodes[node].candidates[c];
        const bool is_plain = it.layout_in == 0 && it.layout_out == 0;
        const bool is_run_by_infer =
            !std::holds_alternative<network::Convolutional>(layer_of(node).operation) ||
            profile_.convolutions.at(convolution_key(layer_of(node)))[c].traits.name ==
                ops::in_tiles;
        if (is_plain && is_run_by_infer) candidates[node] = c;
      }
    }
    return candidates;
  }

  std::vector<Option> one_after_another(uint64_t budget_bytes) const {
    std::vector<Option> options = {option_of(in_tiles_everywhere()), option_of(fastest_)};
    if (!cuts_needed_) return options;
    const uint64_t left_bytes = budget_bytes - std::min(budget_bytes, least_arena_bytes_);
    for (const Strategy strategy : {Strategy::whole_network, Strategy::layer_by_layer}) {
      const Instance instance = alone(strategy);
      if (least_memory_bytes(instance) > left_bytes) continue;
      auto found =
          fastest(instance, left_bytes, cap_counts[cuts_needed_->size()].others_quantum_bytes);
      if (found) options.push_back(option_of(std::move(found->candidates)));
    }
    return options;
  }

  // The least and the most that a budget can usefully be.
  Status find_ends() {
    auto fastest = fastest_ignoring_memory(instance_);
    if (!fastest) return tl::make_unexpected(fastest.error());
    fastest_ = std::move(fastest->candidates);
    const auto need = [&](const std::vector<uint32_t>& candidates) {
      const uint64_t arena_bytes = arena_of(choices(candidates), workspaces(candidates)).bytes;
      return arena_bytes +
             cut(tileable(candidates), tile_sizes[std::size(tile_sizes) - 1]).largest_bytes;
    };
    least_ = option_of(in_tiles_everywhere());
    least_bytes_ = need(least_.candidates);
    const size_t smallest_pieces = piece_caps_.size() - 1;
    for (const Option& option : front(0, smallest_pieces)) {
      const uint64_t bytes = need(option.candidates);
      if (bytes >= least_bytes_) continue;
      least_bytes_ = bytes;
      least_ = option;
    }
    most_bytes_ = arena_of(choices(fastest_), workspaces(fastest_)).bytes;
    for (const auto& it : tileable(fastest_)) most_bytes_ += it.costs.size_bytes;
    forced_by_ = what_forces_least();
    return {};
  }

  Error too_small(uint64_t budget_bytes) const {
    return {
        fmt::format("a budget of {} is too small: the least is {} ({} bytes), of which {}",
                    format_size(budget_bytes), format_size(least_bytes_), least_bytes_, forced_by_),
        fmt::format("give --budget {}KiB or more, or choose a smaller width and height in the "
                    ".cfg's [net] section",
                    (least_bytes_ + KiB - 1) / KiB)};
  }

  std::string what_forces_least() {
    const uint64_t arena_bytes =
        arena_of(choices(least_.candidates), workspaces(least_.candidates)).bytes;
    const Cut pieces = cut(tileable(least_.candidates), tile_sizes[std::size(tile_sizes) - 1]);
    const auto largest = std::max_element(
        pieces.tiles.begin(), pieces.tiles.end(),
        [](const auto& a, const auto& b) { return a.costs.size_bytes < b.costs.size_bytes; });
    uint32_t fullest = 0;
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      const uint64_t bytes = chosen(least_.candidates, i).workspace_bytes;
      if (bytes <= most_bytes) continue;
      most_bytes = bytes;
      fullest = i;
    }
    return fmt::format(
        "{} are activations and workspace, most of them while {} runs, and {} the "
        "largest piece of weights, of {}",
        format_size(arena_bytes), network::describe_layer(network_, fullest),
        format_size(largest->costs.size_bytes), network::describe_layer(network_, largest->layer));
  }

  const Network& network_;
  const Profile& profile_;
  const JointSettings settings_;
  Instance instance_;
  std::optional<std::vector<uint32_t>> cuts_needed_;        // nothing: more than reduce() takes
  std::vector<std::vector<uint64_t>> own_workspace_bytes_;  // by node and candidate
  std::vector<uint64_t> live_bytes_;                        // by layer
  uint64_t least_arena_bytes_ = 0;
  std::vector<uint64_t> arena_caps_;
  std::vector<uint64_t> piece_caps_;
  std::map<std::pair<size_t, size_t>, std::vector<Option>> fronts_;
  std::map<std::vector<uint64_t>, Arena> arenas_;
  // For other budgets.
  std::map<std::vector<uint32_t>, Option> found_before_;
  std::vector<uint32_t> fastest_;
  Option least_;
  uint64_t least_bytes_ = 0;
  uint64_t most_bytes_ = 0;
  std::string forced_by_;
  PlanningWork work_;
};

JointPlanner::JointPlanner(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
JointPlanner::JointPlanner(JointPlanner&&) noexcept = default;
JointPlanner::~JointPlanner() = default;

Result<JointPlanner> JointPlanner::make(const Network& network, const Profile& profile,
                                        const JointSettings& settings) {
  auto made = std::make_unique<Implementation>(network, profile, settings);
  if (Status done = made->prepare(); !done) return forward_error(std::move(done));
  return JointPlanner(std::move(made));
}

uint64_t JointPlanner::least_bytes() const { return implementation_->least_bytes(); }
uint64_t JointPlanner::most_bytes() const { return implementation_->most_bytes(); }
PlanningWork JointPlanner::work() const { return implementation_->work(); }
std::string JointPlanner::forced_by() const { return implementation_->forced_by(); }
Result<JointPlan> JointPlanner::plan(uint64_t budget_bytes) {
  return implementation_->plan(budget_bytes);
}
std::vector<JointPlan> JointPlanner::plans_one_after_another(uint64_t budget_bytes) {
  return implementation_->plans_one_after_another(budget_bytes);
}

}  // namespace weightpager::plan
