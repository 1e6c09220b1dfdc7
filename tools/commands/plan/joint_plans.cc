#include "tools/commands/plan/joint_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "pager/base/units.h"
#include "tools/cli/version.h"
#include "tools/report/html_text.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using plan::JointPlan;

constexpr int joint_plans_schema_version = 1;

// By how many per cent the delay is above the bound, which no plan of this budget can be below.
double percent_above_bound(const JointPlan& it) {
  const auto bound_ns = static_cast<double>(std::max<uint64_t>(it.bound_ns, 1));
  return 100 * (static_cast<double>(it.delay_ns) / bound_ns - 1);
}

std::string front_table(const NetworkPlans& network) {
  std::string text = fmt::format("{:>10} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}\n",
                                 "budget MiB", "delay ms", "compute ms", "read MiB", "ring MiB",
                                 "stays MiB", "arena MiB", "bound");
  for (const BudgetedPlan& it : network.front) {
    const JointPlan& plan = it.plan;
    text += fmt::format(
        "{:>10.2f} {:>9.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>+8.1f}%\n",
        mebibytes(it.budget_bytes), milliseconds(plan.delay_ns), milliseconds(plan.compute_ns),
        mebibytes(plan.read_bytes_per_pass), mebibytes(plan.rings.bytes()),
        mebibytes(plan.pinned_bytes), mebibytes(plan.arena_bytes), percent_above_bound(plan));
  }
  return text;
}

// The primitives that compute the convolutions, the most frequent first.
std::string ways_of(const JointPlan& plan, const network::Network& network) {
  std::map<std::string, int> counts;
  for (size_t i = 0; i < plan.choices.size(); ++i) {
    if (!std::holds_alternative<network::Convolutional>(network.layers[i].operation)) continue;
    const std::string& name = plan.choices[i].computed_by;
    ++counts[name.empty() ? "tiles" : name];
  }
  std::vector<std::pair<int, std::string>> ways;
  for (const auto& [name, count] : counts) ways.emplace_back(-count, name);
  std::sort(ways.begin(), ways.end());
  std::vector<std::string> words;
  for (const auto& [count, name] : ways) words.push_back(fmt::format("{} by {}", -count, name));
  return fmt::format("{}", fmt::join(words, ", "));
}

// Says where bytes and time go.
std::string explanation(const NetworkPlans& network, const infer::ReadingCosts& reading) {
  const JointPlan& plan = network.chosen->plan;
  const uint64_t read_bytes = plan.read_bytes_per_pass;
  const double reading_ns = static_cast<double>(read_bytes) * reading.taken.ns_per_byte +
                            plan.reads_per_pass * reading.taken.ns_per_read;
  const double waiting_ns =
      std::max(0.0, static_cast<double>(plan.delay_ns - std::min(plan.delay_ns, plan.compute_ns)) -
                        reading_ns);
  std::string text = fmt::format(
      "memory\n"
      "  weights that stay     {:>9.2f} MiB  of {:.2f} MiB\n"
      "  a ring for the others {:>9.2f} MiB  {:.2f} MiB go through it in each pass\n"
      "  activations           {:>9.2f} MiB\n"
      "  workspace beyond them {:>9.2f} MiB  the largest takes {:.2f} MiB, where activations leave "
      "room\n"
      "  unused                {:>9.2f} MiB\n"
      "time\n"
      "  computing             {:>9.2f} ms   {}\n"
      "  processors' reading   {:>9.2f} ms   at most, {:.2f} ns per byte and {:.0f} µs per read\n"
      "  waiting for weights   {:>9.2f} ms\n"
      "no plan of this budget takes less than {:.2f} ms ({:+.1f} %)\n",
      mebibytes(plan.pinned_bytes), mebibytes(plan.weight_bytes), mebibytes(plan.rings.bytes()),
      mebibytes(read_bytes), mebibytes(plan.activation_bytes),
      mebibytes(plan.arena_bytes - std::min(plan.arena_bytes, plan.activation_bytes)),
      mebibytes(plan.workspace_bytes),
      mebibytes(network.chosen->budget_bytes - plan.memory_bytes()), milliseconds(plan.compute_ns),
      ways_of(plan, network.network), milliseconds(reading_ns), reading.taken.ns_per_byte,
      reading.taken.ns_per_read / 1e3, milliseconds(waiting_ns), milliseconds(plan.bound_ns),
      -100 * (1 - static_cast<double>(plan.bound_ns) / static_cast<double>(plan.delay_ns)));
  if (network.with_more) {
    const BudgetedPlan& more = *network.with_more;
    text += fmt::format(
        "{} more would make it {:.2f} ms ({:+.1f} %): {:+.2f} MiB that stay, {:+.2f} MiB for "
        "workspace and activations, computing {:+.2f} ms\n",
        format_size(more.budget_bytes - network.chosen->budget_bytes),
        milliseconds(more.plan.delay_ns),
        100 * (static_cast<double>(more.plan.delay_ns) / static_cast<double>(plan.delay_ns) - 1),
        mebibytes(more.plan.pinned_bytes) - mebibytes(plan.pinned_bytes),
        mebibytes(more.plan.arena_bytes) - mebibytes(plan.arena_bytes),
        milliseconds(more.plan.compute_ns) - milliseconds(plan.compute_ns));
  }
  return text;
}

std::string chosen_line(const NetworkPlans& network) {
  const JointPlan& plan = network.chosen->plan;
  const std::string trial = plan.trial_run_ns > 0
                                ? fmt::format(" ({:.2f} ms in its trial run, the fastest of {})",
                                              milliseconds(plan.trial_run_ns), network.tried_plans)
                                : "";
  return fmt::format("within {}: {:.2f} ms a pass{}, {} in memory, {} read each time\n",
                     format_size(network.chosen->budget_bytes), milliseconds(plan.delay_ns), trial,
                     format_size(plan.memory_bytes()), format_size(plan.read_bytes_per_pass));
}

Json plan_json(const BudgetedPlan& it) {
  const JointPlan& plan = it.plan;
  return {{"budget_bytes", it.budget_bytes},
          {"memory_bytes", plan.memory_bytes()},
          {"ring_bytes", plan.rings.bytes()},
          {"pinned_bytes", plan.pinned_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"activation_bytes", plan.activation_bytes},
          {"workspace_bytes", plan.workspace_bytes},
          {"weight_bytes", plan.weight_bytes},
          {"read_bytes_per_pass", plan.read_bytes_per_pass},
          {"compute_ns", plan.compute_ns},
          {"delay_ns", plan.delay_ns},
          {"bound_ns", plan.bound_ns},
          {"trial_run_ns", plan.trial_run_ns},
          {"is_cut_short", plan.is_cut_short}};
}

LineChart front_chart(const JointPlans& plans) {
  LineChart chart{"Delay by budget", "budget, MiB", "milliseconds", {}};
  for (const NetworkPlans& network : plans.networks) {
    ChartLine line{network.cfg_path, {}};
    ChartLine bound{"the bound", {}, true};
    for (const BudgetedPlan& it : network.front) {
      line.points.emplace_back(mebibytes(it.budget_bytes), milliseconds(it.plan.delay_ns));
      bound.points.emplace_back(mebibytes(it.budget_bytes), milliseconds(it.plan.bound_ns));
    }
    chart.lines.push_back(std::move(line));
    if (plans.networks.size() == 1) chart.lines.push_back(std::move(bound));
  }
  return chart;
}

// Shows where the memory goes as the budget grows.
LineChart memory_chart(const NetworkPlans& network) {
  LineChart chart{network.cfg_path + ": where the memory goes",
                  "budget, MiB",
                  "MiB",
                  {{"weights that stay", {}},
                   {"ring", {}},
                   {"activations and workspace", {}},
                   {"read in each pass", {}, true}}};
  for (const BudgetedPlan& it : network.front) {
    const double at = mebibytes(it.budget_bytes);
    chart.lines[0].points.emplace_back(at, mebibytes(it.plan.pinned_bytes));
    chart.lines[1].points.emplace_back(at, mebibytes(it.plan.rings.bytes()));
    chart.lines[2].points.emplace_back(at, mebibytes(it.plan.arena_bytes));
    chart.lines[3].points.emplace_back(at, mebibytes(it.plan.read_bytes_per_pass));
  }
  return chart;
}

}  // namespace

std::string joint_plans_text(const JointPlans& plans, bool is_explained) {
  std::string text;
  for (const NetworkPlans& network : plans.networks) {
    if (!text.empty()) text += "\n";
    text += fmt::format("{}: weights read at {:.2f} GB/s, {}\n", network.cfg_path,
                        plans.reading.bytes_per_s / 1e9, network.machine);
    if (!network.front.empty()) text += "\n" + front_table(network);
    if (!network.chosen) continue;
    text += "\n" + chosen_line(network);
    if (is_explained) text += explanation(network, plans.reading);
  }
  return text;
}

std::string joint_plans_json(const JointPlans& plans) {
  Json json = {{"schema_version", joint_plans_schema_version},
               {"plan", "joint"},
               {"weightpager_version", version_number()},
               {"weightpager_commit", version_commit()},
               {"read_bytes_per_s", plans.reading.bytes_per_s},
               {"read_latency_ns", plans.reading.latency_ns},
               {"processor_ns_per_byte", plans.reading.taken.ns_per_byte},
               {"processor_ns_per_read", plans.reading.taken.ns_per_read}};
  if (plans.budget_bytes) json["budget_bytes"] = *plans.budget_bytes;
  for (const NetworkPlans& network : plans.networks) {
    Json it = {{"network", network.cfg_path},
               {"machine", network.machine},
               {"least_bytes", network.least_bytes},
               {"forced_by", network.forced_by}};
    if (network.chosen) it["chosen"] = plan_json(*network.chosen);
    for (const BudgetedPlan& point : network.front) it["front"].push_back(plan_json(point));
    json["networks"].push_back(std::move(it));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string joint_plans_html(const JointPlans& plans) {
  std::string charts = svg_of(front_chart(plans));
  for (const NetworkPlans& network : plans.networks) charts += svg_of(memory_chart(network));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Memory "
      "plan</title>\n"
      "<style>body{{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}"
      "pre{{overflow-x:auto;font-size:0.85em}}</style>\n</head>\n<body>\n<h1>Memory plan</h1>\n"
      "{}<pre>{}</pre>\n<p>weightpager {}, {}</p>\n</body>\n</html>\n",
      charts, html_text(joint_plans_text(plans, true)), version_number(), version_commit());
}

}  // namespace weightpager::tools
