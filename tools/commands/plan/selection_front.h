// A front of selections as tables, JSON and pictures: what `plan primitives` shows of a network and
// of an instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/time_limit.h"
#include "runtime/plan/selection.h"
#include "tools/report/svg_chart.h"

namespace weightpager::tools {

/// The time of convolutions and changes of layout: the median of some runs.
struct MeasuredTime {
  double took_ns = 0;
  /// The time on a machine on which the chosen selection takes its planned time.
  double at_planned_pace_ns = 0;
};

/// A point of the front, and the greedy selection for the same memory.
struct FrontPoint {
  const plan::Selection* best = nullptr;
  std::optional<plan::Selection> greedy;
  /// Set if measuring was asked for.
  std::optional<MeasuredTime> measured;
};

struct SelectionFront {
  std::vector<plan::Selection> front;
  /// Evenly spread over the front, with both of its ends. They have greedy selections as far as
  /// there was time. Pointers into `front`.
  std::vector<FrontPoint> points;
  plan::Selection chosen;
  /// The time limit ended the search before every workspace was tried.
  bool is_cut_short = false;
};

/// What to choose from a front: the fastest selection within a budget, the least memory that is
/// fast enough (TASO's Equation 14; where all memory is workspace, Equation 15), or the fastest.
struct WantedSelection {
  std::optional<uint64_t> budget_bytes;
  std::optional<double> time_ns_max;
};

/// Searches the front and chooses. Fails if nothing is small or fast enough.
Result<SelectionFront> find_front(const plan::Instance& instance, const WantedSelection& wanted,
                                  const TimeLimit& limit);

/// At most `count` points, evenly spread over the front, with both of its ends.
std::vector<const plan::Selection*> spread_over(const std::vector<plan::Selection>& front,
                                                size_t count);

/// A point of a picture: MiB and ms.
std::pair<double, double> point_of(const plan::Selection& selection);
/// The front, or some of its points.
ChartLine line_of(const std::string& name, const std::vector<plan::Selection>& front);
/// Points of selections in any order.
ChartLine line_of_points(const std::string& name, std::vector<std::pair<double, double>> points);
/// The front, and what greedy finds in the memory of its points.
std::string front_svg(const std::string& title, const SelectionFront& found);

/// How good the points are, in words; then one line for each.
void print_front(const plan::Instance& instance, const SelectionFront& found);
/// "within 400.0 MiB: 12.10 ms in 58.30 MiB"
void print_chosen(const SelectionFront& found, const WantedSelection& wanted);

nlohmann::ordered_json selection_json(const plan::Selection& it);
/// Adds `is_cut_short`, `chosen`, `front` and `points` to an object.
void add_front(nlohmann::ordered_json& json, const SelectionFront& found);

}  // namespace weightpager::tools
