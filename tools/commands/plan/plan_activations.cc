// `weightpager plan activations`: shows every strategy for a network's activations, the bounds, and
// the plan that is kept.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/units.h"
#include "pager/model/header_reader.h"
#include "runtime/memory/activations.h"
#include "runtime/memory/bounds.h"
#include "runtime/memory/portfolio.h"
#include "runtime/memory/records_file.h"
#include "runtime/network/parser.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/plan/plan.h"
#include "tools/commands/plan/stepped_activations.h"
#include "tools/report/report_file.h"
#include "tools/terminal/figures.h"
#include "tools/terminal/search_in_time.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using memory::Attempt;
using memory::OffsetsChoice;
using memory::Records;
using memory::SharedObjectsChoice;
using memory::TensorUsage;

constexpr int activations_schema_version = 1;

}  // namespace

Command plan_activations_description() {
  return {.name = "weightpager plan activations",
          .purpose =
              "Plans where a network's activations lie in memory: in one block, or in shared\n"
              "objects. Tries every strategy, shows how near each is to the least possible, and\n"
              "keeps the best. `weightpager infer` runs with that plan.\n",
          .usage = "  weightpager plan activations NET.cfg|RECORDS.json [OPTIONS]\n",
          .options = {resolution_option(),
                      time_limit_option(),
                      {0, "json", "FILE", "write all attempts and the plans to FILE"}},
          .examples =
              "  weightpager plan activations yolov4.cfg\n"
              "  echo '{\"records\": [[0, 1, 1024], [1, 2, 4096]]}' >net.json\n"
              "  weightpager plan activations net.json\n"
              "A record is a tensor: its first operation, its last operation, its bytes.\n"
              "With \"known_after\": [[1, 0]], tensor 1 has its size only after operation 0, and\n"
              "plans are made in steps.\n",
          .exit_status = "  0 planned, 1 the file is no network or no records, 2 misuse\n"};
}

namespace {

bool is_records(const std::string& path) { return path.ends_with(".json"); }

Result<Records> read_usage(const std::string& path,
                           const std::optional<network::Resolution>& resolution) {
  if (is_records(path)) return memory::read_records(path);
  auto network = network::read_network(path, resolution);
  if (!network) return forward_error(std::move(network));
  Records records = {.tensors = memory::lay_out(*network).tensors, .known_after = {}};
  records.known_after.resize(records.tensors.size());
  return records;
}

struct PlannedActivations {
  std::string path;
  Records records;
  OffsetsChoice offsets;
  SharedObjectsChoice objects;
  uint64_t offsets_ns = 0;
  uint64_t objects_ns = 0;
  /// If a size is known late.
  std::optional<SteppedActivations> steps;
};

/// The result of `make`, and the time that it took.
template <typename Make>
auto timed(uint64_t& took_ns, Make make) {
  const auto begin = std::chrono::steady_clock::now();
  auto made = make();
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  took_ns = static_cast<uint64_t>(took.count());
  return made;
}

bool has_late_sizes(const Records& records) {
  return std::any_of(records.known_after.begin(), records.known_after.end(),
                     [](const auto& after) { return after.has_value(); });
}

PlannedActivations plan(const std::string& path, Records records, const TimeLimit& limit) {
  PlannedActivations planned;
  planned.path = path;
  planned.records = std::move(records);
  const std::vector<TensorUsage>& tensors = planned.records.tensors;
  planned.offsets = timed(planned.offsets_ns, [&] {
    return memory::choose_offsets(tensors, memory::Effort::every_strategy, limit);
  });
  planned.objects =
      timed(planned.objects_ns, [&] { return memory::choose_shared_objects(tensors, limit); });
  if (has_late_sizes(planned.records)) planned.steps = plan_in_steps(planned.records, limit);
  return planned;
}

// ---- The table ----

std::string size_and_excess(uint64_t bytes, uint64_t bound_bytes) {
  const double share = static_cast<double>(bytes) / static_cast<double>(bound_bytes);
  return fmt::format("{:>10.3f} {:>+7.1f}%", mebibytes(bytes), 100 * (share - 1));
}

/// A row for each strategy: its first tie rule, and its best one if it has several.
std::string strategy_rows(const std::vector<Attempt>& attempts, uint64_t bound_bytes) {
  std::string text;
  for (auto first = attempts.begin(); first != attempts.end();) {
    const auto end = std::find_if(
        first, attempts.end(), [&](const Attempt& it) { return it.strategy != first->strategy; });
    const auto best = std::min_element(first, end, [](const Attempt& left, const Attempt& right) {
      return left.total_bytes < right.total_bytes;
    });
    text += fmt::format("  {:<30}{}", first->strategy,
                        size_and_excess(first->total_bytes, bound_bytes));
    if (end - first > 1) {
      text += fmt::format("  {}  {}", size_and_excess(best->total_bytes, bound_bytes), best->ties);
    }
    text += "\n";
    first = end;
  }
  return text;
}

std::string table(const std::string& title, const std::vector<Attempt>& attempts,
                  uint64_t bound_bytes) {
  return fmt::format("\n{:<32}{:>10} {:>8}  {:>10} {:>8}  {}\n  {:<30}{}\n", title, "MiB",
                     "+ bound", "best MiB", "+ bound", "with this tie rule", "lower bound",
                     size_and_excess(bound_bytes, bound_bytes)) +
         strategy_rows(attempts, bound_bytes);
}

std::string kept_words(const Attempt& kept) {
  return kept.ties.empty() ? kept.strategy : fmt::format("{} ({})", kept.strategy, kept.ties);
}

std::string objects_verdict(const SharedObjectsChoice& objects) {
  const uint64_t total_bytes = objects.plan.total_bytes();
  if (total_bytes == objects.lower_bound_bytes) return "meets the bound";
  if (total_bytes == objects.proved_lower_bound_bytes)
    return "the optimum: the bound is not met by any plan";
  return fmt::format("no plan is below {:.3f} MiB", mebibytes(objects.proved_lower_bound_bytes));
}

std::string text_of(const PlannedActivations& planned) {
  const OffsetsChoice& offsets = planned.offsets;
  const SharedObjectsChoice& objects = planned.objects;
  std::vector<uint64_t> object_bytes = objects.plan.object_bytes;
  std::sort(object_bytes.rbegin(), object_bytes.rend());
  std::vector<std::string> object_words;
  for (const uint64_t bytes : object_bytes) {
    object_words.push_back(fmt::format("{:.3f}", mebibytes(bytes)));
  }
  return fmt::format("{}: {} tensors, {:.3f} MiB without sharing\n", model::printable(planned.path),
                     planned.records.tensors.size(),
                     mebibytes(memory::unshared_bytes(planned.records.tensors))) +
         table("offsets in one block", offsets.attempts, offsets.lower_bound_bytes) +
         fmt::format("  kept: {:.3f} MiB, {}; {}; {:.1f} ms for all\n",
                     mebibytes(offsets.plan.total_bytes),
                     kept_words(offsets.attempts[offsets.kept]),
                     offsets.plan.total_bytes == offsets.lower_bound_bytes ? "meets the bound"
                                                                           : "above the bound",
                     milliseconds(planned.offsets_ns)) +
         table("shared objects", objects.attempts, objects.lower_bound_bytes) +
         fmt::format("  kept: {:.3f} MiB in objects of {}, {}; {}; {:.1f} ms for all\n",
                     mebibytes(objects.plan.total_bytes()), fmt::join(object_words, " + "),
                     kept_words(objects.attempts[objects.kept]), objects_verdict(objects),
                     milliseconds(planned.objects_ns)) +
         (planned.steps
              ? steps_text(*planned.steps, {offsets.plan.total_bytes, offsets.lower_bound_bytes},
                           {objects.plan.total_bytes(), objects.lower_bound_bytes})
              : "");
}

// ---- The report ----

Json attempts_json(const std::vector<Attempt>& attempts) {
  Json json = Json::array();
  for (const Attempt& it : attempts) {
    json.push_back({{"strategy", it.strategy}, {"ties", it.ties}, {"total_bytes", it.total_bytes}});
  }
  return json;
}

/// As files of records have it.
Json known_after_json(const Records& records) {
  Json json = Json::array();
  for (size_t i = 0; i < records.known_after.size(); ++i) {
    if (records.known_after[i]) json.push_back({i, *records.known_after[i]});
  }
  return json;
}

std::string json_of(const PlannedActivations& planned) {
  Json records = Json::array();
  for (const TensorUsage& it : planned.records.tensors) {
    records.push_back({it.first_operation, it.last_operation, it.size_bytes});
  }
  const OffsetsChoice& offsets = planned.offsets;
  const SharedObjectsChoice& objects = planned.objects;
  Json json = {{"schema_version", activations_schema_version},
               {"name", planned.path},
               {"unshared_bytes", memory::unshared_bytes(planned.records.tensors)},
               {"records", std::move(records)},
               {"offsets",
                {{"lower_bound_bytes", offsets.lower_bound_bytes},
                 {"total_bytes", offsets.plan.total_bytes},
                 {"kept", offsets.kept},
                 {"attempts", attempts_json(offsets.attempts)},
                 {"offset_bytes", offsets.plan.offset_bytes},
                 {"planning_ns", planned.offsets_ns}}},
               {"shared_objects",
                {{"lower_bound_bytes", objects.lower_bound_bytes},
                 {"proved_lower_bound_bytes", objects.proved_lower_bound_bytes},
                 {"total_bytes", objects.plan.total_bytes()},
                 {"kept", objects.kept},
                 {"attempts", attempts_json(objects.attempts)},
                 {"object", objects.plan.object},
                 {"object_bytes", objects.plan.object_bytes},
                 {"planning_ns", planned.objects_ns}}}};
  if (planned.steps) {
    json["known_after"] = known_after_json(planned.records);
    json["steps"] = steps_json(*planned.steps);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

int plan_as_asked(const Arguments& arguments) {
  if (arguments.operands().size() != 1) {
    return misuse({"plan activations: expected a NET.cfg or RECORDS.json",
                   "example: weightpager plan activations yolov4.cfg"});
  }
  const std::string& path = arguments.operands().front();
  const auto time_limit = parse_time_limit(arguments);
  if (!time_limit) return misuse(time_limit.error());
  const auto resolution = parse_resolution(arguments);
  if (!resolution) return misuse(resolution.error());
  if (*resolution && is_records(path)) {
    return misuse({fmt::format("--resolution is for networks, and {} has records", path),
                   "its tensors have the sizes that it says"});
  }
  auto records = read_usage(path, *resolution);
  if (!records) return failure(records.error());
  auto report = ReportFile::create_if_asked(arguments.value("json").value_or(""));
  if (!report) return failure(report.error());
  std::optional<SearchInTime> search(std::in_place, *time_limit, "trying strategies");
  const PlannedActivations planned = plan(path, std::move(*records), search->limit());
  const bool is_time_over = search->limit().is_over();
  search.reset();
  print(stdout, text_of(planned));
  if (is_time_over) {
    print(stdout, time_was_over);
  }
  if (*report) {
    if (const Status written = (*report)->commit(json_of(planned)); !written) {
      return failure(written.error());
    }
  }
  return exit_success;
}

}  // namespace

int plan_activations_command(const std::vector<std::string>& words) {
  return carry_out(plan_activations_description(), words, plan_as_asked);
}

}  // namespace weightpager::tools
