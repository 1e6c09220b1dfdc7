#include "tools/formats/delay_model_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "pager/base/units.h"
#include "pager/base/whole_file.h"

namespace weightpager::tools {
namespace {

using budget::DelayModel;
using Json = nlohmann::ordered_json;

constexpr int delay_model_schema_version = 1;
/// Samples of every layer are among it.
constexpr uint64_t delay_model_bytes_max = 16 * MiB;
/// A second for one byte, operation, tensor or block.
constexpr double ns_max = 1e9;

constexpr std::pair<const char*, double DelayModel::*> model_parts[] = {
    {"read_ns_per_byte", &DelayModel::read_ns_per_byte},
    {"read_ns_per_tensor", &DelayModel::read_ns_per_tensor},
    {"read_ns_per_block", &DelayModel::read_ns_per_block},
    {"kernel_ns_per_operation", &DelayModel::kernel_ns_per_operation},
    {"kernel_ns_per_layer", &DelayModel::kernel_ns_per_layer},
    {"release_ns_per_tensor", &DelayModel::release_ns_per_tensor},
    {"release_ns_per_block", &DelayModel::release_ns_per_block}};

Json fit_json(const budget::CostFit& fit) {
  return {{"samples", fit.samples}, {"r_squared", fit.r_squared}};
}

}  // namespace

Result<DelayModel> parse_delay_model(std::string_view text, const std::string& path) {
  DelayModel model;
  try {
    const Json json = Json::parse(text).at("model");
    for (const auto& [name, part] : model_parts) model.*part = json.at(name);
  } catch (const Json::exception& problem) {
    return fail(fmt::format("{}: not a delay model: {}", path, problem.what()),
                "`weightpager bench blocks NET.cfg NET.weights --json FILE` measures one");
  }
  for (const auto& [name, part] : model_parts) {
    if (model.*part >= 0 && model.*part <= ns_max) continue;
    return fail(fmt::format("{}: {} is {}: expected a number from 0 to {}", path, name, model.*part,
                            ns_max),
                "`weightpager bench blocks NET.cfg NET.weights --json FILE` measures it");
  }
  return model;
}

Result<DelayModel> read_delay_model(const std::string& path) {
  if (path.empty()) return two_processors;
  const auto text = read_whole_json(path, delay_model_bytes_max, "a delay model");
  return text ? parse_delay_model(*text, path) : tl::make_unexpected(text.error());
}

std::string delay_model_json(const std::vector<budget::Sample>& samples,
                             const budget::FittedModel& fitted) {
  Json json = {{"schema_version", delay_model_schema_version}, {"benchmark", "blocks"}};
  for (const auto& [name, part] : model_parts) json["model"][name] = fitted.model.*part;
  json["fit"] = {{"read", fit_json(fitted.read)},
                 {"kernel", fit_json(fitted.kernel)},
                 {"release", fit_json(fitted.release)}};
  for (const budget::Sample& it : samples) {
    json["samples"].push_back({{"size_bytes", it.work.size_bytes},
                               {"tensors", it.work.tensors},
                               {"operations", it.work.operations},
                               {"read_ns", it.read_ns},
                               {"kernel_ns", it.kernel_ns},
                               {"release_ns", it.release_ns}});
  }
  return json.dump(1) + "\n";
}

}  // namespace weightpager::tools
