#include "tools/commands/plan/selection_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pager/base/units.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/integer_program.h"
#include "runtime/plan/select.h"
#include "runtime/plan/series_parallel.h"
#include "tools/cli/cli.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {

using plan::Instance;
using plan::Selection;

namespace {

constexpr uint64_t quantum_bytes = 1;  // exact: series_parallel.h
constexpr size_t points_shown = 12;
constexpr size_t points_drawn = 60;

std::vector<FrontPoint> points_of(const std::vector<Selection>& front, const Instance& instance,
                                  const Selection& fastest, const TimeLimit& limit) {
  std::vector<FrontPoint> points;
  for (const Selection* const best : spread_over(front, points_shown)) {
    FrontPoint& point = points.emplace_back(FrontPoint{.best = best});
    if (limit.is_over()) continue;
    auto greedy = plan::greedy(instance, best->memory_bytes(), fastest.candidates);
    if (greedy) point.greedy = *std::move(greedy);
  }
  return points;
}

/// May add what is found for a budget to the front.
Result<Selection> choose(const Instance& instance, const WantedSelection& wanted,
                         std::vector<Selection>& front, const TimeLimit& limit) {
  if (wanted.budget_bytes)
    return plan::fastest_on_front(instance, *wanted.budget_bytes, front, limit);
  if (wanted.time_ns_max) return plan::least_memory_on_front(front, *wanted.time_ns_max);
  return front.back();
}

void print_exactness(const Instance& instance, const SelectionFront& found) {
  if (found.is_cut_short) {
    print(stdout,
          "--time-limit was over before every workspace was tried: there may be better points, "
          "except for the least memory and the fastest\n\n");
    return;
  }
  if (!plan::is_exact(instance)) {
    print(stdout,
          "only some points, because there are so many layers: there may be better points, except "
          "for the least memory and the fastest\n\n");
    return;
  }
  if (!plan::cuts_needed(instance)) {
    print(stdout, "points at evenly spaced budgets: between them there may be better ones\n\n");
    return;
  }
  print(stdout, "no selection is better than these\n\n");
}

}  // namespace

Result<SelectionFront> find_front(const Instance& instance, const WantedSelection& wanted,
                                  const TimeLimit& limit) {
  SelectionFront found;
  auto front = plan::front_of_any_network(instance, quantum_bytes, points_shown, limit);
  if (!front) return forward_error(std::move(front));
  found.front = std::move(*front);
  auto chosen = choose(instance, wanted, found.front, limit);
  if (!chosen) return forward_error(std::move(chosen));
  found.chosen = std::move(*chosen);
  const auto by_time = plan::fastest_ignoring_memory(instance, limit);
  if (!by_time) return tl::make_unexpected(by_time.error());
  found.is_cut_short = limit.is_over();
  found.points = points_of(found.front, instance, *by_time, limit);
  return found;
}

std::vector<const Selection*> spread_over(const std::vector<Selection>& front, size_t count) {
  count = std::min(count, front.size());
  std::vector<const Selection*> some;
  for (size_t i = 0; i < count; ++i)
    some.push_back(&front[count == 1 ? 0 : i * (front.size() - 1) / (count - 1)]);
  return some;
}

std::pair<double, double> point_of(const Selection& selection) {
  return {mebibytes(selection.memory_bytes()), milliseconds(selection.time_ns)};
}

ChartLine line_of(const std::string& name, const std::vector<Selection>& front) {
  ChartLine line = {.name = name, .points = {}};
  for (const Selection* const it : spread_over(front, points_drawn))
    line.points.push_back(point_of(*it));
  return line;
}

ChartLine line_of_points(const std::string& name, std::vector<std::pair<double, double>> points) {
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return {.name = name, .points = std::move(points), .is_dashed = true};
}

std::string front_svg(const std::string& title, const SelectionFront& found) {
  std::vector<std::pair<double, double>> greedy;
  for (const FrontPoint& point : found.points) {
    if (point.greedy) greedy.push_back(point_of(*point.greedy));
  }
  return svg_of(LineChart{.title = title,
                          .x_label = "memory, MiB",
                          .y_label = "ms",
                          .lines = {line_of("exact", found.front),
                                    line_of_points("greedy", std::move(greedy)),
                                    {.name = "chosen", .points = {point_of(found.chosen)}}}});
}

void print_front(const Instance& instance, const SelectionFront& found) {
  print_exactness(instance, found);
  const bool is_measured =
      std::any_of(found.points.begin(), found.points.end(),
                  [](const FrontPoint& it) { return it.measured.has_value(); });
  std::string text = fmt::format("{:>10} {:>11} {:>13} {:>10} {:>11} {:>8}{}\n", "memory MiB",
                                 "weights MiB", "workspace MiB", "time ms", "greedy ms", "slower",
                                 is_measured ? fmt::format(" {:>11}", "measured ms") : "");
  for (const FrontPoint& point : found.points) {
    const Selection& it = *point.best;
    const std::string greedy =
        point.greedy ? fmt::format("{:>11.2f} {:>7.2f}×", milliseconds(point.greedy->time_ns),
                                   point.greedy->time_ns / it.time_ns)
                     : fmt::format("{:>11} {:>8}", "none", "");
    const std::string measured =
        point.measured ? fmt::format(" {:>11.2f}", milliseconds(point.measured->at_planned_pace_ns))
                       : "";
    text += fmt::format("{:>10.2f} {:>11.2f} {:>13.2f} {:>10.2f} {}{}\n",
                        mebibytes(it.memory_bytes()), mebibytes(it.held_bytes),
                        mebibytes(it.workspace_bytes), milliseconds(it.time_ns), greedy, measured);
  }
  print(stdout, text);
}

void print_chosen(const SelectionFront& found, const WantedSelection& wanted) {
  std::string what = "the fastest";
  if (wanted.budget_bytes) what = fmt::format("within {}", format_size(*wanted.budget_bytes));
  if (wanted.time_ns_max)
    what = fmt::format("least memory within {:.2f} ms", milliseconds(*wanted.time_ns_max));
  print(stdout,
        fmt::format("\n{}: {:.2f} ms in {:.2f} MiB\n", what, milliseconds(found.chosen.time_ns),
                    mebibytes(found.chosen.memory_bytes())));
}

nlohmann::ordered_json selection_json(const Selection& it) {
  return {{"memory_bytes", it.memory_bytes()},
          {"held_bytes", it.held_bytes},
          {"workspace_bytes", it.workspace_bytes},
          {"time_ns", it.time_ns}};
}

void add_front(nlohmann::ordered_json& json, const SelectionFront& found) {
  json["is_cut_short"] = found.is_cut_short;
  json["chosen"] = selection_json(found.chosen);
  for (const Selection& it : found.front) json["front"].push_back(selection_json(it));
  for (const FrontPoint& point : found.points) {
    nlohmann::ordered_json it = selection_json(*point.best);
    for (const char* const known_or_null : {"greedy_time_ns", "measured_time_ns", "took_ns"}) {
      it[known_or_null] = nullptr;
    }
    if (point.greedy) it["greedy_time_ns"] = point.greedy->time_ns;
    if (point.measured) {
      it["measured_time_ns"] = point.measured->at_planned_pace_ns;
      it["took_ns"] = point.measured->took_ns;
    }
    json["points"].push_back(std::move(it));
  }
}

}  // namespace weightpager::tools
