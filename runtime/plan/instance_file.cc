#include "runtime/plan/instance_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "runtime/plan/json_fields.h"

namespace weightpager::plan {
namespace {

using Json = nlohmann::json;

constexpr uint64_t instance_bytes_max = 64 * MiB;
/// A day.
constexpr double time_ms_max = 86.4e6;

/// What is wrong, in words that follow "INSTANCE.json: ".
using Wrong = std::optional<std::string>;

const Json* list_in(const Json& object, const char* key) {
  const Json* const value = find_field(object, key);
  return value != nullptr && value->is_array() ? value : nullptr;
}

bool is_json_time(const Json& value) {
  if (!value.is_number()) return false;
  const double ms = value.get<double>();
  return ms >= 0 && ms <= time_ms_max;  // false for what is not a number, too
}

/// Reads one text, part by part.
class InstanceReader {
 public:
  Wrong read(const Json& json) {
    if (Wrong wrong = read_layouts(json)) return wrong;
    if (Wrong wrong = read_nodes(json)) return wrong;
    return read_edges(json);
  }

  NamedInstance made;

 private:
  Wrong read_layouts(const Json& json) {
    const Json* const layouts = list_in(json, "layouts");
    if (layouts == nullptr || layouts->empty() || layouts->size() > layouts_max) {
      return fmt::format("expected \"layouts\" with 1 to {} names", layouts_max);
    }
    for (const Json& layout : *layouts) {
      if (!layout.is_string()) return "a name in \"layouts\" is no text";
      const auto& name = layout.get_ref<const std::string&>();
      if (number_of_layout(name)) return fmt::format("\"layouts\" has '{}' twice", name);
      layouts_.push_back(name);
    }
    made.instance.layouts = static_cast<uint32_t>(layouts_.size());
    return {};
  }

  std::optional<uint32_t> number_of_layout(const std::string& name) const {
    const auto found = std::find(layouts_.begin(), layouts_.end(), name);
    if (found == layouts_.end()) return std::nullopt;
    return static_cast<uint32_t>(found - layouts_.begin());
  }

  Wrong read_nodes(const Json& json) {
    const Json* const nodes = list_in(json, "nodes");
    if (nodes == nullptr || nodes->empty()) return "expected \"nodes\", one at least";
    for (const Json& node : *nodes) {
      if (Wrong wrong = read_node(node)) return wrong;
    }
    return {};
  }

  Wrong read_node(const Json& json) {
    const size_t number = made.instance.nodes.size();
    Node& node = made.instance.nodes.emplace_back();
    std::vector<std::string>& names = made.names.emplace_back();
    if (const Json* const name = find_field(json, "name"); name != nullptr && name->is_string())
      node.name = name->get<std::string>();
    const Json* const candidates = list_in(json, "candidates");
    if (candidates == nullptr) return fmt::format("node {}: expected \"candidates\"", number);
    for (const Json& candidate : *candidates) {
      if (Wrong wrong = read_candidate(candidate, node, names)) {
        return fmt::format("node {}, candidate {}: {}", number, names.size(), *wrong);
      }
    }
    return {};
  }

  Wrong read_candidate(const Json& json, Node& node, std::vector<std::string>& names) const {
    Candidate candidate;
    const Json* const time = find_field(json, "time_ms");
    if (time == nullptr || !is_json_time(*time)) {
      return fmt::format("expected \"time_ms\" from 0 to {}", time_ms_max);
    }
    candidate.time_ns = time->get<double>() * 1e6;
    for (const auto& [key, bytes] : {std::pair("held_bytes", &Candidate::held_bytes),
                                     std::pair("workspace_bytes", &Candidate::workspace_bytes)}) {
      const Json* const value = find_field(json, key);
      if (value == nullptr) continue;
      if (!value->is_number_unsigned()) {
        return fmt::format("expected \"{}\" as a whole number", key);
      }
      candidate.*bytes = value->get<uint64_t>();
    }
    for (const auto& [key, layout] : {std::pair("layout_in", &Candidate::layout_in),
                                      std::pair("layout_out", &Candidate::layout_out)}) {
      const Json* const value = find_field(json, key);
      const auto number = value != nullptr && value->is_string()
                              ? number_of_layout(value->get_ref<const std::string&>())
                              : std::nullopt;
      if (!number) return fmt::format("expected \"{}\" with a name of \"layouts\"", key);
      candidate.*layout = *number;
    }
    const Json* const name = find_field(json, "name");
    names.push_back(name != nullptr && name->is_string() ? name->get<std::string>()
                                                         : fmt::to_string(names.size()));
    node.candidates.push_back(candidate);
    return {};
  }

  Wrong read_edges(const Json& json) {
    if (find_field(json, "edges") == nullptr && made.instance.nodes.size() == 1) return {};
    const Json* const edges = list_in(json, "edges");
    if (edges == nullptr) return "expected \"edges\" as a list";
    for (const Json& edge : *edges) {
      if (Wrong wrong = read_edge(edge)) {
        return fmt::format("edge {}: {}", made.instance.edges.size(), *wrong);
      }
    }
    return {};
  }

  Wrong read_edge(const Json& json) {
    Edge edge;
    for (const auto& [key, node] : {std::pair("from", &Edge::from), std::pair("to", &Edge::to)}) {
      const Json* const value = find_field(json, key);
      if (value == nullptr || !value->is_number_unsigned() ||
          value->get<uint64_t>() >= made.instance.nodes.size()) {
        return fmt::format("expected \"{}\" with the number of a node", key);
      }
      edge.*node = value->get<uint32_t>();
    }
    const size_t layouts = layouts_.size();
    edge.change_ns.assign(layouts * layouts, 0);
    const Json* const changes = find_field(json, "change_ms");
    const bool is_square =
        changes == nullptr || (changes->is_array() && changes->size() == layouts);
    if (!is_square) return fmt::format("expected \"change_ms\" with {} rows", layouts);
    for (size_t from = 0; changes != nullptr && from < layouts; ++from) {
      const Json& row = (*changes)[from];
      if (!row.is_array() || row.size() != layouts ||
          !std::all_of(row.begin(), row.end(), is_json_time))
        return fmt::format("row {} of \"change_ms\": expected {} times from 0 to {}", from, layouts,
                           time_ms_max);
      for (size_t to = 0; to < layouts; ++to)
        edge.change_ns[from * layouts + to] = row[to].get<double>() * 1e6;
    }
    made.instance.edges.push_back(std::move(edge));
    return {};
  }

  std::vector<std::string> layouts_;
};

tl::unexpected<Error> no_instance(const std::string& name, const std::string& wrong) {
  return fail(fmt::format("{}: {}", name, wrong),
              "docs/reference/plan_primitives.md shows such a file");
}

}  // namespace

Result<NamedInstance> parse_instance(std::string_view text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return no_instance(name, "it is no JSON");
  InstanceReader reader;
  if (const Wrong wrong = reader.read(json)) return no_instance(name, *wrong);
  if (const Status checked = check(reader.made.instance); !checked) {
    return no_instance(name, checked.error().message);
  }
  return std::move(reader.made);
}

Result<NamedInstance> read_instance(const std::string& path) {
  const auto text = read_whole_json(path, instance_bytes_max, "an instance of selection");
  if (!text) return tl::make_unexpected(text.error());
  return parse_instance(*text, path);
}

}  // namespace weightpager::plan
