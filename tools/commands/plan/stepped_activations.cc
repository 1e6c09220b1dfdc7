#include "tools/commands/plan/stepped_activations.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using memory::PlanStep;
using memory::step_rules;
using memory::SteppedPlan;

std::string step_words(const PlanStep& step) {
  return fmt::format(
      "{}, {} tensor{}",
      step.after_operation ? fmt::format("after operation {}", *step.after_operation) : "at first",
      step.tensors.size(), step.tensors.size() == 1 ? "" : "s");
}

constexpr const char* row_format = "{:<34}";
constexpr const char* cell_format = "{:>15}";

/// How far each plan is beyond `bytes`.
std::string excess_row(const char* words, const std::vector<uint64_t>& totals, uint64_t bytes) {
  std::string text = fmt::format(row_format, fmt::format("  {}: {:.3f}", words, mebibytes(bytes)));
  for (const uint64_t total : totals) {
    const double ratio = static_cast<double>(total) / static_cast<double>(bytes);
    text += fmt::format(cell_format, fmt::format("{:+.1f}%", 100 * (ratio - 1)));
  }
  return text + "\n";
}

template <typename Plan>
std::string steps_table(const char* title, const std::vector<SteppedPlan<Plan>>& plans,
                        const StaticTotals& known) {
  std::string text = "\n" + fmt::format(row_format, title);
  for (const auto rule : step_rules) text += fmt::format(cell_format, memory::name(rule));
  text += "\n";
  size_t unchanged = 0;
  std::vector<uint64_t> totals(plans.size(), 0);
  for (size_t i = 0; i < plans.front().steps.size(); ++i) {
    const std::vector<uint64_t> before = totals;
    for (size_t k = 0; k < plans.size(); ++k) totals[k] = plans[k].steps[i].total_bytes;
    if (i > 0 && totals == before) {
      ++unchanged;
      continue;
    }
    text += fmt::format(row_format, "  " + step_words(plans.front().steps[i]));
    for (const uint64_t total : totals) {
      text += fmt::format(cell_format, fmt::format("{:.3f}", mebibytes(total)));
    }
    text += "\n";
  }
  if (unchanged > 0) text += fmt::format("  further steps that need no more: {}\n", unchanged);
  return text + excess_row("all sizes known at first", totals, known.plan_bytes) +
         excess_row("lower bound", totals, known.bound_bytes);
}

template <typename Plan>
Json step_list(const SteppedPlan<Plan>& planned) {
  Json steps = Json::array();
  for (const PlanStep& step : planned.steps) {
    steps.push_back(
        {{"after_operation", step.after_operation ? Json(*step.after_operation) : Json()},
         {"tensors", step.tensors},
         {"total_bytes", step.total_bytes}});
  }
  return steps;
}

}  // namespace

SteppedActivations plan_in_steps(const memory::Records& records, const TimeLimit& limit) {
  SteppedActivations planned;
  for (const auto rule : step_rules) {
    planned.offsets.push_back(
        memory::plan_offsets_in_steps(records.tensors, records.known_after, rule, limit));
    planned.objects.push_back(
        memory::share_objects_in_steps(records.tensors, records.known_after, rule, limit));
  }
  return planned;
}

std::string steps_text(const SteppedActivations& planned, const StaticTotals& offsets,
                       const StaticTotals& objects) {
  return steps_table("offsets in steps, MiB", planned.offsets, offsets) +
         steps_table("shared objects in steps, MiB", planned.objects, objects);
}

Json steps_json(const SteppedActivations& planned) {
  Json json = {{"offsets", Json::object()}, {"shared_objects", Json::object()}};
  for (size_t i = 0; i < planned.offsets.size(); ++i) {
    const char* const rule = memory::name(step_rules[i]);
    const auto& offsets = planned.offsets[i];
    json["offsets"][rule] = {{"total_bytes", offsets.plan.total_bytes},
                             {"steps", step_list(offsets)},
                             {"offset_bytes", offsets.plan.offset_bytes}};
    const auto& objects = planned.objects[i];
    json["shared_objects"][rule] = {{"total_bytes", objects.plan.total_bytes()},
                                    {"steps", step_list(objects)},
                                    {"object", objects.plan.object},
                                    {"object_bytes", objects.plan.object_bytes}};
  }
  return json;
}

}  // namespace weightpager::tools
