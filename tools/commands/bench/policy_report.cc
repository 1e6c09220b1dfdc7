#include "tools/commands/bench/policy_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pager/base/units.h"
#include "tools/cli/version.h"
#include "tools/report/html_text.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using simulate::TimelineSpan;

constexpr int policies_schema_version = 1;

double gib(uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(GiB); }

std::string share_of_model(const PolicyComparison& comparison, uint64_t bytes) {
  return fmt::format(
      "{:.0f}%", 100 * static_cast<double>(bytes) / static_cast<double>(comparison.model_bytes));
}

std::string head_text(const PolicyComparison& comparison) {
  const simulate::DiskModel& disk = comparison.machine.disk;
  const std::string repeats =
      comparison.repeats > 1 ? fmt::format(", the middle one of {} runs", comparison.repeats) : "";
  return fmt::format(
      "{}: {} in chunks of {}; {} passes after {} to warm up{}, {:.3f} s of computing a pass\n"
      "disk {}: {:.2f} GB/s, latency {} us, {} reads at once; a fault takes {} us\n",
      comparison.name, format_size(comparison.model_bytes), format_size(comparison.chunk_bytes),
      comparison.passes - comparison.warm_up_passes, comparison.warm_up_passes, repeats,
      seconds(comparison.compute_ns), disk.name, disk.bytes_per_s / 1e9, disk.latency_ns / 1000,
      disk.queue_depth, comparison.machine.handling.fault_ns / 1000);
}

bool has(const PolicyComparison& comparison, bool (*is_meant)(const PolicyRun& run)) {
  return std::any_of(comparison.windows.begin(), comparison.windows.end(), [&](const auto& window) {
    return std::any_of(window.runs.begin(), window.runs.end(), is_meant);
  });
}

const PassFigures& best_known(const PolicyRun& run) {
  return run.live ? *run.live : *run.simulated;
}

std::string deviation_text(const PolicyComparison& comparison) {
  const std::vector<double> shares = deviations(comparison);
  if (shares.empty()) return "";
  std::string text = fmt::format(
      "\nThe simulated time of a pass is off the live one by {:.1f} % in the median, by {:.1f} % "
      "at most:\n  {:<14}",
      100 * shares[shares.size() / 2], 100 * shares.back(), "window");
  const std::vector<PolicyRun>& first = comparison.windows.front().runs;
  for (const PolicyRun& run : first) {
    if (run.deviation()) text += fmt::format(" {:>14}", run.policy);
  }
  for (const WindowRuns& window : comparison.windows) {
    text += fmt::format("\n  {:<14}", format_size(window.window_bytes));
    for (const PolicyRun& run : window.runs) {
      if (const auto share = run.deviation()) text += fmt::format(" {:>+13.1f}%", 100 * *share);
    }
  }
  return text + "\n";
}

std::string run_row(const PolicyRun& run, const WindowRuns& window, bool with_live) {
  const PassFigures& figures = best_known(run);
  const std::string name = run.policy + (with_live && !run.live ? "*" : "");
  std::string row = fmt::format(
      "  {:<14} {:>10.3f} {:>8.3f} {:>8.3f} {:>7.2f}x {:>10.3f} {:>9.3f} {:>7.2f}x", name,
      seconds(figures.median_ns), seconds(figures.shortest_ns), seconds(figures.longest_ns),
      static_cast<double>(figures.median_ns) / static_cast<double>(window.least_ns),
      seconds(figures.mean.stall_ns), gib(figures.read_bytes),
      static_cast<double>(figures.read_bytes) /
          static_cast<double>(std::max<uint64_t>(window.least_read_bytes, 1)));
  if (const auto share = run.deviation(); with_live && share) {
    row += fmt::format(" {:>10.3f} {:>+8.1f}%", seconds(run.simulated->median_ns), 100 * *share);
  }
  return row + "\n";
}

Json figures_json(const PassFigures& figures) {
  Json json = {{"pass_ns_median", figures.median_ns},
               {"pass_ns_min", figures.shortest_ns},
               {"pass_ns_max", figures.longest_ns},
               {"read_bytes", figures.read_bytes}};
  for (const auto& [key, count] : named_counts) json[key] = figures.mean.*count;
  return json;
}

LineChart chart_over_windows(const PolicyComparison& comparison, const char* title,
                             const char* y_label, double (*of)(const PassFigures&),
                             double (*bound)(const WindowRuns&)) {
  LineChart chart{title, "window, GiB", y_label, {}};
  for (size_t i = 0; i < comparison.windows.front().runs.size(); ++i) {
    ChartLine line{comparison.windows.front().runs[i].policy, {}};
    for (const WindowRuns& window : comparison.windows) {
      line.points.emplace_back(gib(window.window_bytes), of(best_known(window.runs[i])));
    }
    chart.lines.push_back(std::move(line));
  }
  ChartLine least{"the bound", {}, true};
  for (const WindowRuns& window : comparison.windows) {
    least.points.emplace_back(gib(window.window_bytes), bound(window));
  }
  chart.lines.push_back(std::move(least));
  for (ChartLine& line : chart.lines) std::sort(line.points.begin(), line.points.end());
  return chart;
}

// Two rows for each policy: the work of the disk and the work of the engine.
TimeChart timeline_of(const PolicyComparison& comparison, const WindowRuns& window) {
  TimeChart chart{
      fmt::format("One pass at {} ({} of the model), simulated", format_size(window.window_bytes),
                  share_of_model(comparison, window.window_bytes)),
      "seconds since the pass began",
      {{"read ahead", "#56b4e9"},
       {"read on demand", "#0072b2"},
       {"engine waits", "#d55e00"},
       {"engine computes", "#009e73"}},
      {}};
  for (const PolicyRun& run : window.runs) {
    TimeRow disk{run.policy + " disk", {}};
    TimeRow engine{"engine", {}};
    for (const TimelineSpan& span : run.timeline) {
      const bool is_read =
          span.kind == TimelineSpan::Kind::read || span.kind == TimelineSpan::Kind::demand_read;
      (is_read ? disk : engine)
          .bars.push_back(
              {seconds(span.begin_ns), seconds(span.end_ns), static_cast<size_t>(span.kind)});
    }
    for (TimeRow* row : {&disk, &engine}) {
      std::sort(row->bars.begin(), row->bars.end(),
                [](const TimeBar& a, const TimeBar& b) { return a.begin < b.begin; });
    }
    chart.rows.push_back(std::move(disk));
    chart.rows.push_back(std::move(engine));
  }
  return chart;
}

}  // namespace

std::string comparison_text(const PolicyComparison& comparison) {
  const bool with_live = has(comparison, [](const PolicyRun& run) { return run.live.has_value(); });
  std::string text = head_text(comparison);
  for (const WindowRuns& window : comparison.windows) {
    text += fmt::format(
        "\nwindow {} ({} of the model); nobody is faster than {:.3f} s or reads less than {:.3f} "
        "GiB\n(with the same chunks in it for good: {:.3f} GiB; with those touched most until "
        "then: {:.3f} GiB)\n"
        "  {:<14} {:>10} {:>8} {:>8} {:>8} {:>10} {:>9} {:>8}{}\n",
        format_size(window.window_bytes), share_of_model(comparison, window.window_bytes),
        seconds(window.least_ns), gib(window.least_read_bytes), gib(window.fixed_set_read_bytes),
        gib(window.learned_set_read_bytes), with_live ? "live" : "simulated", "pass s", "min",
        "max", "bound", "stalled s", "read GiB", "least",
        with_live ? fmt::format(" {:>10} {:>9}", "simul. s", "differs") : "");
    for (const PolicyRun& run : window.runs) text += run_row(run, window, with_live);
  }
  if (with_live && has(comparison, [](const PolicyRun& run) { return !run.live; })) {
    text += "* only simulated\n";
  }
  text += deviation_text(comparison);
  for (const std::string& remark : comparison.remarks) text += "remark: " + remark + "\n";
  return text;
}

std::string comparison_json(const PolicyComparison& comparison) {
  Json json = {{"schema_version", policies_schema_version},
               {"weightpager_version", version_number()},
               {"weightpager_commit", version_commit()},
               {"trace", comparison.name},
               {"model_bytes", comparison.model_bytes},
               {"chunk_bytes", comparison.chunk_bytes},
               {"passes", comparison.passes},
               {"warm_up_passes", comparison.warm_up_passes},
               {"repeats", comparison.repeats},
               {"compute_ns", comparison.compute_ns},
               {"disk", Json::parse(machine_json(comparison.machine))},
               {"remarks", comparison.remarks},
               {"windows", Json::array()}};
  if (const auto shares = deviations(comparison); !shares.empty()) {
    json["simulated_is_off_median"] = shares[shares.size() / 2];
  }
  for (const WindowRuns& window : comparison.windows) {
    Json runs = Json::array();
    for (const PolicyRun& run : window.runs) {
      Json it = {{"policy", run.policy}};
      if (run.simulated) it["simulated"] = figures_json(*run.simulated);
      if (run.live) it["live"] = figures_json(*run.live);
      runs.push_back(std::move(it));
    }
    json["windows"].push_back({{"window_bytes", window.window_bytes},
                               {"least_read_bytes", window.least_read_bytes},
                               {"fixed_set_read_bytes", window.fixed_set_read_bytes},
                               {"learned_set_read_bytes", window.learned_set_read_bytes},
                               {"least_ns", window.least_ns},
                               {"policies", std::move(runs)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string comparison_csv(const PolicyComparison& comparison) {
  std::string text =
      "window_bytes,policy,how,pass_ns_median,pass_ns_min,pass_ns_max,stall_ns,read_bytes,"
      "least_ns,least_read_bytes\n";
  const auto add_row = [&](const WindowRuns& window, const std::string& policy, const char* how,
                           const PassFigures& it) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", window.window_bytes, policy, how,
                        it.median_ns, it.shortest_ns, it.longest_ns, it.mean.stall_ns,
                        it.read_bytes, window.least_ns, window.least_read_bytes);
  };
  for (const WindowRuns& window : comparison.windows) {
    for (const PolicyRun& run : window.runs) {
      if (run.simulated) add_row(window, run.policy, "simulated", *run.simulated);
      if (run.live) add_row(window, run.policy, "live", *run.live);
    }
  }
  return text;
}

std::string comparison_html(const PolicyComparison& comparison) {
  const auto time = chart_over_windows(
      comparison, "Time of a pass", "seconds",
      [](const PassFigures& it) { return seconds(it.median_ns); },
      [](const WindowRuns& it) { return seconds(it.least_ns); });
  const auto bytes = chart_over_windows(
      comparison, "Read in a pass", "GiB", [](const PassFigures& it) { return gib(it.read_bytes); },
      [](const WindowRuns& it) { return gib(it.least_read_bytes); });
  const WindowRuns& middle = comparison.windows[comparison.windows.size() / 2];
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n"
      "<style>body{{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}"
      "pre{{overflow-x:auto;font-size:0.85em}}</style>\n</head>\n<body>\n<h1>Policies for "
      "{0}</h1>\n"
      "{1}{2}{3}<pre>{4}</pre>\n<p>weightpager {5}, {6}</p>\n</body>\n</html>\n",
      html_text(comparison.name), svg_of(time), svg_of(bytes),
      svg_of(timeline_of(comparison, middle)), html_text(comparison_text(comparison)),
      version_number(), version_commit());
}

}  // namespace weightpager::tools
