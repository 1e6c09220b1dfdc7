#include "tools/formats/disk_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "pager/base/units.h"
#include "pager/base/whole_file.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t disk_bytes_max = 1 * MiB;
/// Between a byte in a second and a petabyte.
constexpr double bytes_per_s_min = 1;
constexpr double bytes_per_s_max = 1e15;
constexpr double latency_ns_max = 10e9;
constexpr uint32_t queue_depth_max = 4096;
constexpr double jitter_max = 1e6;
constexpr uint64_t handling_ns_max = 1'000'000'000;

/// The library would make a number of another kind one without a word: of -1 the largest there is.
uint64_t whole_number(const Json& json) {
  const double number = json;
  return number >= 0 && number < 1e18 ? static_cast<uint64_t>(number) : UINT64_MAX;
}

/// By their names in files.
template <typename Do>
void for_each_cost(simulate::Handling& handling, Do act) {
  act("fault_ns", handling.fault_ns);
  act("request_ns", handling.request_ns);
  act("show_call_ns", handling.show.call_ns);
  act("show_page_ns", handling.show.page_ns);
  act("take_out_call_ns", handling.take_out.call_ns);
  act("take_out_page_ns", handling.take_out.page_ns);
  act("show_huge_page_ns", handling.show_huge_ns);
  act("take_out_huge_page_ns", handling.take_out_huge_ns);
}

}  // namespace

Result<Machine> parse_machine(std::string_view text, const std::string& name) {
  Machine machine;
  simulate::DiskModel& disk = machine.disk;
  bool is_possible = true;
  try {
    const Json json = Json::parse(text);
    disk.name = json.at("name");
    disk.bytes_per_s = json.at("bytes_per_s");
    disk.latency_ns = whole_number(json.at("latency_ns"));
    disk.queue_depth = static_cast<uint32_t>(
        std::min<uint64_t>(whole_number(json.at("queue_depth")), queue_depth_max + 1));
    disk.jitter = json.at("jitter");
    disk.answers_together = json.value("answers_together", false);
    if (const auto handling = json.find("handling"); handling != json.end()) {
      for_each_cost(machine.handling, [&](const char* cost, uint64_t& ns) {
        ns = whole_number(handling->at(cost));
        is_possible = is_possible && ns <= handling_ns_max;
      });
      // Files of 2026-11-23 and before have none.
      machine.handling.turn_ns = whole_number(handling->value("turn_ns", Json(uint64_t{0})));
      is_possible = is_possible && machine.handling.turn_ns <= handling_ns_max;
      machine.handling.shares_processor = handling->value("shares_processor", false);
    }
  } catch (const Json::exception& problem) {
    return fail(fmt::format("{}: not a disk: {}", name, problem.what()),
                "`weightpager bench disk FILE --json disk.json` measures one");
  }
  is_possible =
      is_possible && disk.bytes_per_s >= bytes_per_s_min && disk.bytes_per_s <= bytes_per_s_max &&
      static_cast<double>(disk.latency_ns) <= latency_ns_max && disk.queue_depth > 0 &&
      disk.queue_depth <= queue_depth_max && disk.jitter >= 0 && disk.jitter <= jitter_max;
  if (is_possible) return machine;
  return fail(
      fmt::format("{}: no disk is like that", name),
      "bytes_per_s and queue_depth are above 0, latency_ns and jitter not below, and nothing "
      "that has to be handled takes more than a second");
}

Result<Machine> read_machine(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) {
    const auto text = read_whole_file(name, disk_bytes_max, "a disk");
    return text ? parse_machine(*text, name) : tl::make_unexpected(text.error());
  }
  auto known = simulate::disk_by_name(name);
  if (!known) return forward_error(std::move(known));
  return Machine{.disk = std::move(*known), .handling = {}};
}

std::string machine_json(const Machine& machine) {
  const simulate::DiskModel& disk = machine.disk;
  Json handling;
  simulate::Handling costs = machine.handling;
  for_each_cost(costs, [&](const char* cost, uint64_t ns) { handling[cost] = ns; });
  handling["turn_ns"] = costs.turn_ns;
  handling["shares_processor"] = costs.shares_processor;
  const Json json = {{"name", disk.name},
                     {"bytes_per_s", disk.bytes_per_s},
                     {"latency_ns", disk.latency_ns},
                     {"queue_depth", disk.queue_depth},
                     {"jitter", disk.jitter},
                     {"answers_together", disk.answers_together},
                     {"handling", handling}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weightpager::tools
