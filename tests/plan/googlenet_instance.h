// GoogLeNet's shapes with made-up costs (googlenet.json says how): 57 convolutions of 57
// candidates, 9 concatenations that choose a layout, 92 edges, and the optima that CBC found for
// it.
#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/plan/selection.h"

namespace weightpager::plan {

struct GoogleNet {
  Instance instance;
  nlohmann::json expected;
};

/// WP_PLAN_DATA is where googlenet.json is; all memory is held.
inline GoogleNet read_googlenet() {
  const auto json =
      nlohmann::json::parse(std::ifstream(std::string(WP_PLAN_DATA) + "/googlenet.json"));
  GoogleNet read{.expected = json.at("expected")};
  Instance& instance = read.instance;
  std::map<std::string, uint32_t> layouts;
  for (const auto& name : json.at("layouts")) layouts.emplace(name, layouts.size());
  instance.layouts = static_cast<uint32_t>(layouts.size());
  for (const auto& node : json.at("nodes")) {
    Node& made = instance.nodes.emplace_back();
    if (node.is_string()) {
      for (uint32_t i = 0; i < instance.layouts; ++i) {
        made.candidates.push_back({.layout_in = i, .layout_out = i});
      }
      continue;
    }
    for (const auto& it : json.at("primitives").at(node.get<size_t>())) {
      made.candidates.push_back({.time_ns = it.at(0).get<double>() * 1e6,
                                 .held_bytes = it.at(1).get<uint64_t>(),
                                 .layout_in = layouts.at(it.at(2)),
                                 .layout_out = layouts.at(it.at(3))});
    }
  }
  for (const auto& edge : json.at("edges")) {
    const double change_ns = 2 * edge.at(2).get<double>() / 1.5e9 * 1e9;
    Edge made{edge.at(0), edge.at(1), {}};
    for (uint32_t from = 0; from < instance.layouts; ++from) {
      for (uint32_t to = 0; to < instance.layouts; ++to) {
        made.change_ns.push_back(from == to ? 0 : change_ns);
      }
    }
    instance.edges.push_back(std::move(made));
  }
  return read;
}

/// What candidates held is workspace instead.
inline Instance with_workspaces(Instance instance) {
  for (Node& node : instance.nodes) {
    for (Candidate& it : node.candidates) std::swap(it.held_bytes, it.workspace_bytes);
  }
  return instance;
}

}  // namespace weightpager::plan
