// What an instance's file says is what is planned, and what is wrong in it is refused by name.
#include "runtime/plan/instance_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/plan/select.h"
#include "tests/plan/random_instance.h"

namespace weightpager::plan {
namespace {

using Json = nlohmann::json;

Json json_of(const Instance& instance) {
  Json json;
  for (uint32_t i = 0; i < instance.layouts; ++i)
    json["layouts"].push_back("l" + std::to_string(i));
  for (const Node& node : instance.nodes) {
    Json candidates = Json::array();
    for (const Candidate& it : node.candidates) {
      candidates.push_back({{"time_ms", it.time_ns / 1e6},
                            {"held_bytes", it.held_bytes},
                            {"workspace_bytes", it.workspace_bytes},
                            {"layout_in", json["layouts"][it.layout_in]},
                            {"layout_out", json["layouts"][it.layout_out]}});
    }
    json["nodes"].push_back({{"candidates", candidates}});
  }
  json["edges"] = Json::array();
  for (const Edge& edge : instance.edges) {
    Json rows = Json::array();
    for (uint32_t from = 0; from < instance.layouts; ++from) {
      Json row = Json::array();
      for (uint32_t to = 0; to < instance.layouts; ++to)
        row.push_back(edge.change_ns[from * instance.layouts + to] / 1e6);
      rows.push_back(row);
    }
    json["edges"].push_back({{"from", edge.from}, {"to", edge.to}, {"change_ms", rows}});
  }
  return json;
}

TEST(InstanceFile, IsTheInstanceThatWasWritten) {
  RandomInstances random(7);
  for (int i = 0; i < 200; ++i) {
    const Instance written = random.make(6, 3);
    const auto read = parse_instance(json_of(written).dump(), "it");
    ASSERT_TRUE(read) << read.error().message;
    const Instance& instance = read->instance;
    ASSERT_EQ(instance.nodes.size(), written.nodes.size());
    ASSERT_EQ(instance.edges.size(), written.edges.size());
    for_each_selection(written, [&](const Selection& it) {
      const Selection same = evaluate(instance, it.candidates);
      EXPECT_EQ(same.memory_bytes(), it.memory_bytes());
      EXPECT_EQ(same.workspace_bytes, it.workspace_bytes);
      EXPECT_NEAR(same.time_ns, it.time_ns, 1e-6);
    });
  }
}

// TASO's equation 14, and 15 where all memory is workspace.
TEST(LeastMemoryOnFront, IsTheLeastOfAllSelectionsThatAreFastEnough) {
  RandomInstances random(8);
  for (int i = 0; i < 300; ++i) {
    Instance instance = random.make(6, 3);
    if (i % 2 == 1) {
      for (Node& node : instance.nodes) {
        for (Candidate& it : node.candidates) it.held_bytes = 0;
      }
    }
    const auto front = pareto_front(instance);
    ASSERT_TRUE(front);
    for (const double time_ns : {5.0, 20.0, 40.0, 60.0, 1000.0}) {
      uint64_t least_bytes = UINT64_MAX;
      for_each_selection(instance, [&](const Selection& it) {
        if (it.time_ns <= time_ns) least_bytes = std::min(least_bytes, it.memory_bytes());
      });
      const auto found = least_memory_on_front(*front, time_ns);
      ASSERT_EQ(found.has_value(), least_bytes != UINT64_MAX);
      if (!found) continue;
      EXPECT_EQ(found->memory_bytes(), least_bytes);
      EXPECT_LE(evaluate(instance, found->candidates).time_ns, time_ns);
    }
  }
}

Json small_instance_json() {
  return Json::parse(R"({"layouts": ["a", "b"],
    "nodes": [{"candidates": [{"time_ms": 1, "layout_in": "a", "layout_out": "a"}]},
              {"candidates": [{"time_ms": 1, "layout_in": "b", "layout_out": "b"}]}],
    "edges": [{"from": 0, "to": 1, "change_ms": [[0, 2], [2, 0]]}]})");
}

TEST(InstanceFile, WhatIsWrongIsRefusedByName) {
  ASSERT_TRUE(parse_instance(small_instance_json().dump(), "it"));
  struct Case {
    const char* pointer;
    Json value;
    const char* words;
  };
  const Case cases[] = {
      {"/layouts", Json::array(), "expected \"layouts\""},
      {"/layouts", Json::array({"a", "a"}), "'a' twice"},
      {"/layouts", Json::array({1, 2}), "no text"},
      {"/layouts", Json(std::vector<std::string>(17, "x")), "1 to 16 names"},
      {"/nodes", 3, "expected \"nodes\""},
      {"/nodes", Json::array(), "expected \"nodes\""},
      {"/nodes/0/candidates", Json::array(), "node 0 has no candidates"},
      {"/nodes/1/candidates/0/time_ms", -1, "node 1, candidate 0: expected \"time_ms\""},
      {"/nodes/1/candidates/0/time_ms", 1e300, "expected \"time_ms\""},
      {"/nodes/1/candidates/0/time_ms", "soon", "expected \"time_ms\""},
      {"/nodes/1/candidates/0/layout_in", "c", "expected \"layout_in\""},
      {"/nodes/1/candidates/0/held_bytes", -5, "expected \"held_bytes\""},
      {"/nodes/1/candidates/0/held_bytes", UINT64_MAX, "node 1, candidate 0"},
      {"/edges", "none", "expected \"edges\""},
      {"/edges/0/to", 2, "edge 0: expected \"to\""},
      {"/edges/0/to", 0, "edge 0 leads from node 0 to 0"},
      {"/edges/0/from", -1, "edge 0: expected \"from\""},
      {"/edges/0/change_ms", Json::parse("[[0, 1]]"), "expected \"change_ms\" with 2 rows"},
      {"/edges/0/change_ms", Json::parse("[[0], [1, 0]]"), "row 0 of \"change_ms\""},
      {"/edges/0/change_ms", Json::parse("[[0, 1], [-1, 0]]"), "row 1 of \"change_ms\""},
  };
  for (const Case& it : cases) {
    Json json = small_instance_json();
    json[Json::json_pointer(it.pointer)] = it.value;
    const auto read = parse_instance(json.dump(), "it");
    ASSERT_FALSE(read) << it.pointer << " " << it.value;
    EXPECT_NE(read.error().message.find(it.words), std::string::npos) << read.error().message;
    EXPECT_EQ(read.error().message.find("it: "), 0u) << read.error().message;
  }
  for (const char* text : {"", "[", "3", "null", "[]", "{}"})
    EXPECT_FALSE(parse_instance(text, "it")) << text;
}

}  // namespace
}  // namespace weightpager::plan
