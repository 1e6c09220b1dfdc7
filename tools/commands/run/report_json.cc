#include "tools/commands/run/report_json.h"

#include <sys/utsname.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tools/cli/version.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using telemetry::Telemetry;

constexpr int run_schema_version = 1;

Json process_json(const RunReport& report, const Telemetry& process) {
  Json json = {{"process_id", process.process_id},
               {"command", process.command},
               {"mapper", process.mapper},
               {"reader", process.reader},
               {"policy", policy::policy_name(process.policy)},
               {"former_policy", policy::policy_name(process.former_policy)},
               {"profile", process.profile}};
  for (const telemetry::NamedCounter& it : telemetry::named_counters()) {
    json[it.key] = (process.*it.counter).load();
  }
  const Ratios ratio = ratios(process);
  json["elapsed_ns"] = ratio.elapsed_ns;
  json["stall_share"] = ratio.stall_share;
  json["read_busy_share"] = ratio.read_busy_share;
  json["demand_read_share"] = ratio.demand_read_share;
  json["read_bytes_per_second"] = ratio.read_bytes_per_second;
  json["read_model_multiple"] = ratio.read_model_multiple;
  json["advice"] = advice_of(report, process);
  return json;
}

Json finding_json(const Finding& finding) {
  return {{"cause", finding.cause},
          {"process_id", finding.process_id},
          {"command", finding.command},
          {"finding", finding.text},
          {"cure", finding.cure}};
}

Json config_json(const RunReport& report) {
  const RunOptions& options = report.options;
  return {{"window", options.window},
          {"window_bytes", report.window_bytes},
          {"match", options.match},
          {"mapper", options.mapper},
          {"policy", options.policy},
          {"mirrors", options.mirrors},
          {"spill", options.spill_folder},
          {"keep_copies", options.kept_folder},
          {"spilling", name_of(options.spilling)},
          {"profile", options.profile},
          {"engine", options.engine}};
}

Json exit_json(const EngineExit& exit) {
  Json json = {{"status", nullptr}, {"signal", nullptr}};
  if (exit.signal) {
    json["signal"] = exit.signal;
  } else {
    json["status"] = exit.status;
  }
  return json;
}

}  // namespace

std::string report_json(const RunReport& report) {
  utsname kernel = {};
  uname(&kernel);
  Json json = {{"schema_version", run_schema_version},
               {"weightpager_version", version_number()},
               {"weightpager_commit", version_commit()},
               {"kernel", kernel.release},
               {"cpus", std::thread::hardware_concurrency()},
               {"memory_limit_bytes", report.memory_limit.bytes},
               {"memory_limit_source", report.memory_limit.source},
               {"config", config_json(report)},
               {"exit", exit_json(report.exit)},
               {"elapsed_ns", report.elapsed_ns},
               {"largest_process_bytes", report.largest_process_bytes},
               {"processes", Json::array()},
               {"findings", Json::array()}};
  for (const Telemetry* process : report.processes) {
    json["processes"].push_back(process_json(report, *process));
  }
  for (const Finding& it : report.findings) json["findings"].push_back(finding_json(it));
  // File names need not be UTF-8, but JSON must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weightpager::tools
