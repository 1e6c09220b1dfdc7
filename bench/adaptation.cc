// How soon the default policy serves an engine as well as it can, when something changes while the
// engine runs: a prompt and then decoding, a smaller window, a larger one.
//
// What is compared. Passes of a mixture differ by more than a tenth though nothing changes, so each
// pass since the change is laid beside the same pass of a run that had the later state all along
// (pager/simulate/change.h). A run has recovered when two such passes in a row take at most a tenth
// longer. Beside that stands when somebody would have who is told how often each expert will be
// used from then on, and somebody who knows only what was used until then; how far the run fell
// behind, and how far any policy does on that disk; and the bytes that the other run holds by then
// and this one does not, with the time, and the passes, in which the disk brings all of them.
//
// Live: the pager on a real file, and an engine that only pretends to compute
// (tools/probes/live_policy.h). With --disk all of it on paper, where it is exact. Of several texts
// the same passes are added up. Prints a table; --json writes more.
//
//     build/release/bench/adaptation MODEL [--disk nvme-gen4] [--json FILE]   (one file, some GiB)
#include <fmt/format.h>

#include <cxxopts.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/median.h"
#include "pager/model/model.h"
#include "pager/policy/chunk_size.h"
#include "pager/simulate/change.h"
#include "tools/formats/disk_file.h"
#include "tools/probes/disk_probe.h"
#include "tools/probes/live_policy.h"

namespace weightpager {
namespace {

using Json = nlohmann::ordered_json;
using simulate::Change;
using simulate::ChangeTimes;
using simulate::RunWithChange;

constexpr size_t passes_after = 16;
constexpr uint64_t texts_live = 6;
constexpr uint64_t texts_on_paper = 10;

// The passes since the change.
Result<std::vector<simulate::PassCounts>> run_live(const model::Model& model,
                                                   const RunWithChange& run) {
  const uint64_t chunk_bytes = run.trace.chunk_bytes;
  tools::LiveOptions options{.policy = std::string(policy::adaptive_policy),
                             .window_bytes = run.window_chunks * chunk_bytes};
  if (run.window_chunks_after != run.window_chunks) {
    options.resize_pass = run.change_pass;
    options.resize_bytes = run.window_chunks_after * chunk_bytes;
  }
  auto live = tools::run_live(model, tools::in_naps(run.trace), options);
  if (!live) return forward_error(std::move(live));
  live->passes.erase(live->passes.begin(),
                     live->passes.begin() + static_cast<std::ptrdiff_t>(run.change_pass));
  return std::move(live->passes);
}

/// Puts live times in place of those on paper. One run right after the other: a disk may be another
/// one a minute later. Of two texts each is first once: a virtual machine's host may still have
/// what the first one read.
Status run_live(const model::Model& model, const Change& change, bool changed_is_first,
                ChangeTimes& times) {
  auto first = run_live(model, changed_is_first ? change.changed : change.unchanged);
  if (!first) return forward_error(std::move(first));
  auto second = run_live(model, changed_is_first ? change.unchanged : change.changed);
  if (!second) return forward_error(std::move(second));
  if (!changed_is_first) std::swap(*first, *second);
  times.set_passes(*first, *second);
  return {};
}

struct Row {
  std::string name;
  ChangeTimes times;
};

Result<tools::Machine> measured_machine(const model::Model& model, uint64_t chunk_bytes) {
  auto probe = tools::DiskProbe::open(model.files.front().path);
  if (!probe) return forward_error(std::move(probe));
  auto fitted = probe->fit(chunk_bytes);
  if (!fitted) return forward_error(std::move(fitted));
  return tools::Machine{.disk = fitted->disk, .handling = {.request_ns = fitted->request_ns}};
}

struct Rows {
  std::vector<Row> rows;
  uint64_t texts = 0;  // that were added up
  simulate::DiskModel disk;
};

/// On paper, with that machine. Live, without one: it is measured before each change, for a disk
/// may be another one a minute later, and what is said of all rows is by its median speed.
Result<Rows> add_up(const model::Model& model, const std::optional<tools::Machine>& on_paper) {
  std::vector<Row> rows;
  std::vector<double> speeds;
  simulate::DiskModel disk;
  const uint64_t texts = on_paper ? texts_on_paper : texts_live;
  for (uint64_t seed = 1; seed <= texts; ++seed) {
    const auto changes = simulate::usual_changes(model, passes_after, seed);
    rows.resize(changes.size());
    for (size_t i = 0; i < changes.size(); ++i) {
      auto machine = on_paper ? Result<tools::Machine>(*on_paper)
                              : measured_machine(model, changes[i].changed.trace.chunk_bytes);
      if (!machine) return forward_error(std::move(machine));
      auto times = simulate::simulate_change(
          changes[i], {.disk = machine->disk, .handling = machine->handling});
      if (!times) return forward_error(std::move(times));
      if (!on_paper) {
        if (auto done = run_live(model, changes[i], seed % 2 == 1, *times); !done)
          return forward_error(std::move(done));
      }
      rows[i].name = changes[i].name;
      rows[i].times += *times;
      speeds.push_back(machine->disk.bytes_per_s);
      disk = machine->disk;
    }
  }
  disk.bytes_per_s = median(std::move(speeds));
  return Rows{std::move(rows), texts, std::move(disk)};
}

void print_head(const simulate::DiskModel& disk) {
  fmt::print("disk: {}, {:.2f} GB/s\n\n", disk.name, disk.bytes_per_s / 1e9);
  fmt::print("| change | s/pass | first after, times | second | third | passes to recover |");
  fmt::print(" if informed | if learning | lost, s | at least | lacking, GiB | s | passes |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

// Of one text, on average.
Json print_row(const Row& row, uint64_t texts, uint64_t chunk_bytes, double bytes_per_s) {
  const simulate::Recovery it = simulate::recovery(row.times);
  const auto of_one = [&](auto sum) {
    return static_cast<double>(sum) / static_cast<double>(texts);
  };
  const double pass_s = of_one(median(row.times.unchanged_ns)) / 1e9;
  const double lost_s = of_one(it.lost_ns) / 1e9;
  const double missing_bytes = of_one(row.times.missing_chunks * chunk_bytes);
  const double missing_s = missing_bytes / bytes_per_s;
  const double chunk_ns = static_cast<double>(chunk_bytes) / bytes_per_s * 1e9;
  const simulate::Recovery informed =
      simulate::recovery_if_missing(row.times, row.times.informed_misses, chunk_ns);
  const simulate::Recovery learning =
      simulate::recovery_if_missing(row.times, row.times.learning_misses, chunk_ns);
  const double least_s = of_one(simulate::least_lost_ns(row.times, chunk_ns)) / 1e9;
  const auto bytes = [&](const std::vector<uint64_t>& chunks) {
    Json each = Json::array();
    for (const uint64_t count : chunks) each.push_back(of_one(count * chunk_bytes));
    return each;
  };
  const auto& times = it.times_as_long;
  fmt::print(
      "| {} | {:.3f} | {:.2f} | {:.2f} | {:.2f} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | "
      "{:.2f} | {:.1f} |\n",
      row.name, pass_s, times[0], times[1], times[2], it.passes, informed.passes, learning.passes,
      lost_s, least_s, missing_bytes / static_cast<double>(GiB), missing_s, missing_s / pass_s);
  return {{"change", row.name},
          {"pass_s", pass_s},
          {"times_as_long", times},
          {"passes_to_recover", it.passes},
          {"times_as_long_if_informed", informed.times_as_long},
          {"passes_if_informed", informed.passes},
          {"times_as_long_if_learning", learning.times_as_long},
          {"passes_if_learning", learning.passes},
          {"lost_s", lost_s},
          {"least_lost_s", least_s},
          {"missing_bytes", missing_bytes},
          {"missing_s", missing_s},
          {"first_use_bytes", bytes(row.times.first_uses)},
          {"missed_bytes_if_informed", bytes(row.times.informed_misses)},
          {"missed_bytes_if_learning", bytes(row.times.learning_misses)},
          {"read_bytes", bytes(row.times.changed_reads)},
          {"read_bytes_unchanged", bytes(row.times.unchanged_reads)}};
}

Result<Json> compare(const model::Model& model, const std::string& disk_name) {
  std::optional<tools::Machine> on_paper;
  if (!disk_name.empty()) {
    auto machine = tools::read_machine(disk_name);
    if (!machine) return forward_error(std::move(machine));
    on_paper = *std::move(machine);
  }
  const auto all = add_up(model, on_paper);
  if (!all) return tl::make_unexpected(all.error());
  print_head(all->disk);
  Json json = Json::array();
  for (const Row& row : all->rows) {
    json.push_back(
        print_row(row, all->texts, policy::chunk_bytes_for(model), all->disk.bytes_per_s));
  }
  return json;
}

int run(const std::string& path, const std::string& disk_name, const std::string& json_path) {
  const auto model = model::open_model(path);
  if (!model) {
    fmt::print(stderr, "{}\n", model.error().message);
    return 1;
  }
  const auto all = compare(*model, disk_name);
  if (!all) {
    fmt::print(stderr, "{}\n", all.error().message);
    return 1;
  }
  if (!json_path.empty()) std::ofstream(json_path) << all->dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int argc, char** argv) {
  cxxopts::Options options("adaptation", "How soon passes are themselves again after a change.");
  options.positional_help("MODEL");
  auto add = options.add_options();
  add("model", "one file of some GiB", cxxopts::value<std::string>());
  add("disk", "on paper, with this disk", cxxopts::value<std::string>()->default_value(""));
  add("json", "write it all to this file", cxxopts::value<std::string>()->default_value(""));
  options.parse_positional({"model"});
  try {
    const auto arguments = options.parse(argc, argv);
    if (arguments.count("model") == 1) {
      return weightpager::run(arguments["model"].as<std::string>(),
                              arguments["disk"].as<std::string>(),
                              arguments["json"].as<std::string>());
    }
  } catch (const cxxopts::exceptions::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
  }
  fmt::print(stderr, "{}", options.help());
  return 2;
}
