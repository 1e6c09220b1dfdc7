#include "tools/disk_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double latency_ns_max = 10e9;
constexpr uint32_t queue_depth_max = 4096;
constexpr double jitter_max = 1000;

}  // namespace

Result<simulate::DiskModel> read_disk(const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name, ignored)) return simulate::disk_by_name(name);
  std::ifstream file(name);
  simulate::DiskModel disk;
  try {
    const Json json = Json::parse(file);
    disk.name = json.at("name");
    disk.bytes_per_s = json.at("bytes_per_s");
    disk.latency_ns = json.at("latency_ns");
    disk.queue_depth = json.at("queue_depth");
    disk.jitter = json.at("jitter");
  } catch (const Json::exception& problem) {
    return fail(fmt::format("{}: not a disk: {}", name, problem.what()),
                "`weightpager bench disk FILE --json disk.json` measures one");
  }
  const bool is_possible = disk.bytes_per_s > 0 && disk.bytes_per_s <= 1e15 &&
                           static_cast<double>(disk.latency_ns) <= latency_ns_max &&
                           disk.queue_depth > 0 && disk.queue_depth <= queue_depth_max &&
                           disk.jitter >= 0 && disk.jitter <= jitter_max;
  if (is_possible) return disk;
  return fail(fmt::format("{}: no disk is like that", name),
              "bytes_per_s and queue_depth are above 0, latency_ns and jitter not below");
}

std::string disk_json(const simulate::DiskModel& disk) {
  const Json json = {{"name", disk.name},
                     {"bytes_per_s", disk.bytes_per_s},
                     {"latency_ns", disk.latency_ns},
                     {"queue_depth", disk.queue_depth},
                     {"jitter", disk.jitter}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weightpager::tools
