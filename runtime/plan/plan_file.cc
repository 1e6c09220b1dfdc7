#include "runtime/plan/plan_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "runtime/network/packed_file.h"
#include "runtime/plan/json_fields.h"
#include "runtime/plan/profiler.h"

namespace weightpager::plan {
namespace {

using Json = nlohmann::json;
using network::Network;
using network::Piece;

constexpr int plan_schema_version = 1;
/// A plan of the longest possible network has some 16 MiB.
constexpr uint64_t file_bytes_max = 32 * MiB;
constexpr uint64_t number_max = uint64_t{1} << 53;
constexpr int threads_max = 4096;
const char* const plan_again = "make it again: weightpager plan NET.cfg --budget SIZE -o FILE";

/// An integer of a plan: its name in the file, and its member.
struct Figure {
  const char* name;
  uint64_t JointPlan::*value;
};
constexpr Figure figures[] = {{"pinned_bytes", &JointPlan::pinned_bytes},
                              {"arena_bytes", &JointPlan::arena_bytes},
                              {"activation_bytes", &JointPlan::activation_bytes},
                              {"workspace_bytes", &JointPlan::workspace_bytes},
                              {"weight_bytes", &JointPlan::weight_bytes},
                              {"read_bytes_per_pass", &JointPlan::read_bytes_per_pass},
                              {"compute_ns", &JointPlan::compute_ns},
                              {"delay_ns", &JointPlan::delay_ns},
                              {"bound_ns", &JointPlan::bound_ns},
                              {"trial_run_ns", &JointPlan::trial_run_ns}};

std::string hex(uint64_t number) { return fmt::format("{:016x}", number); }

std::optional<uint64_t> number_in(const Json& object, const char* key) {
  const Json* const value = find_field(object, key);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  const uint64_t number = value->get<uint64_t>();
  return number <= number_max ? std::optional(number) : std::nullopt;
}

std::optional<std::string> word_in(const Json& object, const char* key) {
  const Json* const value = find_field(object, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::optional<std::vector<LayerChoice>> choices_in(const Json& json, const Network& network) {
  const Json* const list = find_field(json, "layers");
  if (list == nullptr || !list->is_array() || list->size() != network.layers.size()) {
    return std::nullopt;
  }
  std::vector<LayerChoice> choices;
  for (const Json& it : *list) {
    const auto computed_by = word_in(it, "computed_by");
    const auto in = layout_field(it, "layout_in");
    const auto out = layout_field(it, "layout_out");
    if (!computed_by || !in || !out) return std::nullopt;
    choices.push_back({*computed_by, *in, *out});
  }
  // Only convolutions have candidates. All other layers take plain weights, in a layout that they
  // keep.
  for (size_t i = 0; i < choices.size(); ++i) {
    const bool is_convolution =
        std::holds_alternative<network::Convolutional>(network.layers[i].operation);
    const LayerChoice& it = choices[i];
    const bool is_plain = it.has_plain_weights() && it.layout_in == ops::Layout::nchw &&
                          it.layout_out == ops::Layout::nchw;
    if (is_convolution) {
      if (it.has_plain_weights() && !is_plain) return std::nullopt;
    } else if (!it.has_plain_weights() || it.layout_in != it.layout_out ||
               !keeps_layout(network, network.layers[i], it.layout_in)) {
      return std::nullopt;
    }
  }
  if (choices.empty() || choices.back().layout_out != ops::Layout::nchw) return std::nullopt;
  return choices;
}

// Reads the pieces, which must be all of the network's, in order.
bool read_pieces(const Json& json, const Network& network, JointPlan& plan) {
  const Json* const list = find_field(json, "pieces");
  if (list == nullptr || !list->is_array()) return false;
  size_t layer = 0;
  uint64_t channel = 0;
  for (const Json& it : *list) {
    const auto number = number_in(it, "layer");
    const auto first = number_in(it, "first_channel");
    const auto end = number_in(it, "end_channel");
    const auto kernel_ns = number_in(it, "kernel_ns");
    const Json* const is_pinned = find_field(it, "is_pinned");
    if (!number || !first || !end || !kernel_ns || is_pinned == nullptr ||
        !is_pinned->is_boolean() || layer == network.layers.size() || *number != layer) {
      return false;
    }
    const uint64_t channels = network.layers[layer].channels_with_bias();
    const bool is_right = channels == 0 ? *first == 0 && *end == 0
                                        : *first == channel && *end > channel && *end <= channels;
    if (!is_right) return false;
    plan.pieces.push_back(
        {static_cast<uint32_t>(layer), static_cast<uint32_t>(*first), static_cast<uint32_t>(*end)});
    plan.kernel_ns.push_back(*kernel_ns);
    plan.is_pinned.push_back(is_pinned->get<bool>());
    const bool ends_layer = *end == channels;
    if (!ends_layer &&
        (!plan.choices[layer].has_plain_weights() || !network::can_be_cut(network.layers[layer]))) {
      return false;
    }
    channel = ends_layer ? 0 : *end;
    if (ends_layer) ++layer;
  }
  return layer == network.layers.size();
}

}  // namespace

std::string plan_text(const PlanFile& file, const Network& network,
                      const std::string& network_name) {
  nlohmann::ordered_json json = {
      {"schema_version", plan_schema_version},
      {"plan", "joint"},
      {"network", network_name},
      {"fingerprint", hex(network::fingerprint(network))},
      {"input", {network.input.channels, network.input.height, network.input.width}},
      {"machine", file.machine},
      {"threads", file.threads},
      {"budget_bytes", file.budget_bytes},
      {"ring_bytes", file.plan.rings.host_bytes}};
  for (const Figure& it : figures) json[it.name] = file.plan.*it.value;
  for (const LayerChoice& it : file.plan.choices) {
    json["layers"].push_back({{"computed_by", it.computed_by},
                              {"layout_in", ops::layout_name(it.layout_in)},
                              {"layout_out", ops::layout_name(it.layout_out)}});
  }
  for (size_t i = 0; i < file.plan.pieces.size(); ++i) {
    const Piece& it = file.plan.pieces[i];
    json["pieces"].push_back({{"layer", it.layer},
                              {"first_channel", it.first_channel},
                              {"end_channel", it.end_channel},
                              {"kernel_ns", file.plan.kernel_ns[i]},
                              {"is_pinned", static_cast<bool>(file.plan.is_pinned[i])}});
  }
  return json.dump(1) + "\n";
}

Result<PlanFile> parse_plan(std::string_view text, const Network& network,
                            const std::string& name) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (number_in(json, "schema_version") != plan_schema_version ||
      word_in(json, "plan") != "joint") {
    return fail(fmt::format("{} is not a plan of this version of weightpager", name), plan_again);
  }
  const std::vector<uint64_t> input = {network.input.channels, network.input.height,
                                       network.input.width};
  const Json* const planned_input = find_field(json, "input");
  if (word_in(json, "fingerprint") != hex(network::fingerprint(network)) ||
      planned_input == nullptr || *planned_input != Json(input)) {
    return fail(
        fmt::format("{} is the plan of another network, or of another size of its input", name),
        plan_again);
  }
  const auto damaged = [&](const char* what) {
    return fail(fmt::format("{}: \"{}\" is damaged", name, what), plan_again);
  };
  PlanFile file;
  const auto machine = word_in(json, "machine");
  if (!machine) return damaged("machine");
  file.machine = *machine;
  const auto threads = number_in(json, "threads");
  if (!threads || *threads == 0 || *threads > threads_max) return damaged("threads");
  file.threads = static_cast<int>(*threads);
  const auto budget_bytes = number_in(json, "budget_bytes");
  if (!budget_bytes) return damaged("budget_bytes");
  file.budget_bytes = *budget_bytes;
  const auto ring_bytes = number_in(json, "ring_bytes");
  if (!ring_bytes || *ring_bytes % os_page_bytes != 0) return damaged("ring_bytes");
  file.plan.rings.host_bytes = *ring_bytes;
  for (const Figure& it : figures) {
    const auto number = number_in(json, it.name);
    if (!number) return damaged(it.name);
    file.plan.*it.value = *number;
  }
  if (file.plan.memory_bytes() > file.budget_bytes) {
    return fail(fmt::format("{}: its ring, pinned weights and arena take {} bytes, which is more "
                            "than its budget of {}",
                            name, file.plan.memory_bytes(), file.budget_bytes),
                plan_again);
  }
  auto choices = choices_in(json, network);
  if (!choices) return damaged("layers");
  file.plan.choices = std::move(*choices);
  if (!read_pieces(json, network, file.plan)) return damaged("pieces");
  return file;
}

Result<PlanFile> read_plan(const std::string& path, const Network& network) {
  const auto text = read_whole_json(path, file_bytes_max, "a plan");
  if (!text) return tl::make_unexpected(text.error());
  auto file = parse_plan(*text, network, path);
  if (!file) return file;
  if (file->machine != machine_words(file->threads)) {
    return fail(fmt::format("{} was made for another machine: {}", path, file->machine),
                "make it again here: weightpager plan NET.cfg --budget SIZE -o FILE");
  }
  return file;
}

}  // namespace weightpager::plan
