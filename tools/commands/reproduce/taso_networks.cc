#include "tools/commands/reproduce/taso_networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/memory/activations.h"
#include "runtime/network/parser.h"
#include "runtime/network/resolution.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/profile_cache.h"
#include "runtime/plan/profiler.h"
#include "runtime/plan/select.h"
#include "tools/cli/cli.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools::taso {
namespace {

using network::Network;
using plan::Candidate;
using plan::Instance;
using plan::NetworkInstance;
using plan::Selection;

struct Kind {
  const char* name;
  const char* title;
};
constexpr std::array<Kind, 6> kinds_shown = {{{"direct", "direct"},
                                              {"im2row", "im2row"},
                                              {"im2col", "im2col"},
                                              {"winograd", "winograd"},
                                              {"kn2row", "kn2row"},
                                              {"jit", "oneDNN direct"}}};

/// What computes the layers that a primitive cannot: first what needs no memory beside the picture.
/// (A 1 × 1 convolution with stride 1 is one matrix product, and needs none as im2row.)
const std::vector<std::string>& fall_backs() {
  static const std::vector<std::string> kinds = {"direct", "im2row", "tiles"};
  return kinds;
}

/// AlexNet's windows do not fit smaller pictures; the others' sides are halved five times.
uint32_t quick_side(const NamedNetwork& it) {
  return it.name == std::string_view(alexnet.name) ? 72 : 32;
}

Result<Network> described(const NamedNetwork& it, const ReproduceSettings& settings) {
  auto text = network::make_description(it.name);
  if (!text) return forward_error(std::move(text));
  std::optional<network::Resolution> resolution;
  if (settings.is_quick) resolution = {quick_side(it), quick_side(it)};
  // Connected layers have other weights then: another network, as good to measure.
  return network::parse_network(*text, it.name, resolution);
}

Result<plan::Profile> profile_of(const Network& network, const std::string& title) {
  ProgressLine line;
  const plan::ProfilerOptions options = {
      .threads = one_thread,
      .cache_path = plan::profile_cache_path(plan::machine_words(one_thread)),
      .on_progress = [&](const std::string& text) {
        line.show(fmt::format("measuring {}: {}", title, text));
      }};
  auto profile = plan::profile_network(network, options);
  line.clear();
  return profile;
}

/// `instance` holds packed weights, and has the workspace beside them.
Instance with_paper_memory(const Network& network, Instance instance, plan::SelectionScope scope) {
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const network::Layer& layer = network.layers[i];
    const bool counts = std::holds_alternative<network::Convolutional>(layer.operation);
    const uint64_t pictures_bytes = layer.input.size_bytes() + layer.output.size_bytes();
    for (Candidate& it : instance.nodes[NetworkInstance::node_of_layer(i)].candidates) {
      const uint64_t bytes = counts ? it.held_bytes + it.workspace_bytes + pictures_bytes : 0;
      const bool is_held = scope == plan::SelectionScope::whole_network;
      it.held_bytes = is_held ? bytes : 0;
      it.workspace_bytes = is_held ? 0 : bytes;
    }
  }
  return instance;
}

Result<MeasuredNetwork> measure(const NamedNetwork& it, const ReproduceSettings& settings) {
  auto network = described(it, settings);
  if (!network) return forward_error(std::move(network));
  MeasuredNetwork made;
  made.network = std::move(*network);
  made.title =
      fmt::format("{}, {}×{}", it.title, made.network.input.width, made.network.input.height);
  auto profile = profile_of(made.network, made.title);
  if (!profile) return forward_error(std::move(profile));
  made.profile = std::move(*profile);
  constexpr double no_reads = std::numeric_limits<double>::infinity();
  made.made = plan::make_instance(made.network, made.profile, plan::SelectionScope::whole_network,
                                  no_reads);
  made.kinds = plan::primitive_kinds(made.network, made.made);
  made.whole_network =
      with_paper_memory(made.network, made.made.instance, plan::SelectionScope::whole_network);
  made.layer_by_layer =
      with_paper_memory(made.network, made.made.instance, plan::SelectionScope::layer_by_layer);
  return made;
}

}  // namespace

std::vector<NamedNetwork> networks_of(const ReproduceSettings& settings) {
  if (!settings.network.empty()) return {{settings.network.c_str(), settings.network.c_str()}};
  if (settings.is_quick) return {googlenet, squeezenet};
  return {networks.begin(), networks.end()};
}

Result<std::shared_ptr<const MeasuredNetwork>> measured(const NamedNetwork& network,
                                                        const ReproduceSettings& settings) {
  static std::map<std::string, std::shared_ptr<const MeasuredNetwork>> known;
  const NamedNetwork given = {settings.network.c_str(), settings.network.c_str()};
  const NamedNetwork& chosen = settings.network.empty() ? network : given;
  const std::string key = fmt::format("{} {}", chosen.name, settings.is_quick);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  auto made = measure(chosen, settings);
  if (!made) return forward_error(std::move(made));
  return known[key] = std::make_shared<const MeasuredNetwork>(std::move(*made));
}

Result<std::vector<NamedSelection>> one_primitive_each(const MeasuredNetwork& measured,
                                                       const Instance& instance) {
  std::vector<NamedSelection> all;
  for (const Kind& kind : kinds_shown) {
    auto found = plan::one_primitive_everywhere(instance, measured.kinds, kind.name, fall_backs());
    if (!found) return forward_error(std::move(found));
    if (found->nodes_by_it == 0) continue;
    all.push_back(
        {kind.title, std::move(found->selection), found->nodes_by_it, found->nodes_by_others});
  }
  return all;
}

std::vector<NamedSelection> Compared::all() const {
  std::vector<NamedSelection> all = one_primitive;
  all.push_back({"PBQP", pbqp});
  all.push_back({"exact, least time", fastest});
  all.push_back({"exact, least memory", least_memory});
  return all;
}

Result<Compared> compare(const NamedNetwork& network, const ReproduceSettings& settings) {
  auto it = measured(network, settings);
  if (!it) return forward_error(std::move(it));
  const Instance& instance = (*it)->whole_network;
  auto one_primitive = one_primitive_each(**it, instance);
  if (!one_primitive) return forward_error(std::move(one_primitive));
  auto pbqp = plan::fastest_ignoring_memory(instance);
  if (!pbqp) return forward_error(std::move(pbqp));
  auto front = plan::pareto_front(instance);
  if (!front) return forward_error(std::move(front));
  return Compared{*std::move(it), *std::move(one_primitive), *std::move(pbqp), front->back(),
                  front->front()};
}

Instance with_paper_kinds(const MeasuredNetwork& measured, const Instance& instance) {
  const std::vector<plan::KindSet> paper_kinds = {{"direct", "im2row", "im2row-strips", "im2col",
                                                   "im2col-strips", "kn2row", "winograd", "tiles"}};
  return plan::keep_kinds(instance, measured.kinds, paper_kinds).instance;
}

uint64_t weightpager_bytes(const MeasuredNetwork& measured, const Selection& selection) {
  const auto choices = plan::choices_of(measured.network, measured.profile, measured.made.instance,
                                        selection.candidates);
  std::vector<uint64_t> workspaces;
  uint64_t weights_bytes = 0;
  for (uint32_t i = 0; i < measured.network.layers.size(); ++i) {
    const uint32_t node = NetworkInstance::node_of_layer(i);
    const Candidate& it = measured.made.instance.nodes[node].candidates[selection.candidates[node]];
    workspaces.push_back(it.workspace_bytes);
    const bool counts =
        std::holds_alternative<network::Convolutional>(measured.network.layers[i].operation);
    if (counts) weights_bytes += it.held_bytes;
  }
  const auto memory = plan::memory_of(measured.network, choices, workspaces);
  return weights_bytes + memory::lay_out(measured.network, memory).plan.total_bytes;
}

Result<SelectionRun> run_of(const MeasuredNetwork& measured, const Selection& selection) {
  const auto choices = plan::choices_of(measured.network, measured.profile, measured.made.instance,
                                        selection.candidates);
  return SelectionRun::make(measured.network, choices, one_thread);
}

std::vector<std::string> lacks_of(std::span<const NamedSelection> selections) {
  const bool has_winograd = std::any_of(selections.begin(), selections.end(),
                                        [](const auto& it) { return it.title == "winograd"; });
  if (has_winograd) return {};
  return {
      "Winograd everywhere: oneDNN computes by it on processors with AVX-512 alone, in layers of "
      "3 × 3 with stride 1, and this network has none that it takes on this machine."};
}

}  // namespace weightpager::tools::taso
