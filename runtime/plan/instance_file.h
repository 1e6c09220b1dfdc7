// Questions of selection from a file, for networks and machines that other programs measured.
//
//   {"layouts": ["nchw", "nhwc"],
//    "nodes": [{"name": "conv1", "candidates": [
//        {"name": "direct", "time_ms": 1.5, "held_bytes": 4096, "workspace_bytes": 0,
//         "layout_in": "nchw", "layout_out": "nchw"}]}],
//    "edges": [{"from": 0, "to": 1, "change_ms": [[0, 0.3], [0.2, 0]]}]}
//
// Nodes are numbered in their order, and edges lead to later nodes. change_ms has a row for each
// layout that a tensor is in, and in it a time for each layout that it is wanted in; without it no
// change takes time. Of a candidate, time_ms, layout_in and layout_out are needed, and of a node
// its candidates. Other keys are ignored.
//
// The file may come from anyone: what is wrong is refused, and the error names the node or edge.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

struct NamedInstance {
  Instance instance;
  /// By node and candidate; a candidate without a name is called by its number.
  std::vector<std::vector<std::string>> names;
};

/// The instance passes check(). `name` is what errors call the text.
Result<NamedInstance> parse_instance(std::string_view text, const std::string& name);

Result<NamedInstance> read_instance(const std::string& path);

}  // namespace weightpager::plan
