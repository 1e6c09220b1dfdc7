#include "runtime/plan/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/network/packed_file.h"
#include "runtime/plan/json_fields.h"

namespace weightpager::plan {
namespace {

using Json = nlohmann::json;

constexpr int schema_version = 4;
// A day: no time that was measured here is longer.
constexpr double time_ns_max = 86'400e9;
constexpr uint64_t size_bytes_max = uint64_t{1} << 44;

std::optional<double> time_in(const Json* value) {
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double time_ns = value->get<double>();
  if (!std::isfinite(time_ns) || time_ns < 0 || time_ns > time_ns_max) return std::nullopt;
  return time_ns;
}

std::optional<uint64_t> size_in(const Json* value) {
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  const uint64_t size_bytes = value->get<uint64_t>();
  return size_bytes <= size_bytes_max ? std::optional(size_bytes) : std::nullopt;
}

std::optional<MeasuredCandidate> candidate_in(const Json& value) {
  const Json* const name = find_field(value, "name");
  const auto in = layout_field(value, "layout_in");
  const auto out = layout_field(value, "layout_out");
  const auto workspace = size_in(find_field(value, "workspace_bytes"));
  const auto packed = size_in(find_field(value, "packed_bytes"));
  const auto time_ns = time_in(find_field(value, "time_ns"));
  if (name == nullptr || !name->is_string()) return std::nullopt;
  if (!in || !out || !workspace || !packed || !time_ns) return std::nullopt;
  return MeasuredCandidate{{name->get<std::string>(), *in, *out, *workspace, *packed}, *time_ns};
}

std::optional<LayoutTimes> times_in(const Json& value) {
  LayoutTimes times{};
  if (!value.is_array() || value.size() != times.size()) return std::nullopt;
  for (size_t i = 0; i < times.size(); ++i) {
    const auto time_ns = time_in(&value[i]);
    if (!time_ns) return std::nullopt;
    times[i] = *time_ns;
  }
  return times;
}

std::optional<LayoutChangeTimes> changes_in(const Json& value) {
  LayoutChangeTimes times{};
  if (!value.is_array() || value.size() != times.size()) return std::nullopt;
  for (size_t from = 0; from < times.size(); ++from) {
    const auto row = times_in(value[from]);
    if (!row) return std::nullopt;
    times[from] = *row;
  }
  return times;
}

bool read_convolutions(const Json& json, Profile& profile) {
  if (!json.is_object()) return false;
  for (const auto& [key, list] : json.items()) {
    if (!list.is_array()) return false;
    auto& candidates = profile.convolutions[key];
    for (const Json& value : list) {
      auto candidate = candidate_in(value);
      if (!candidate) return false;
      candidates.push_back(std::move(*candidate));
    }
  }
  return true;
}

bool read_others(const Json& json, Profile& profile) {
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    const auto times = times_in(value);
    if (!times) return false;
    profile.others[key] = *times;
  }
  return true;
}

bool read_changes(const Json& json, Profile& profile) {
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    const auto times = changes_in(value);
    if (!times) return false;
    profile.changes[key] = *times;
  }
  return true;
}

bool read_in_place(const Json& json, Profile& profile) {
  if (!json.is_object()) return false;
  for (const auto& [network, parts] : json.items()) {
    if (!parts.is_object()) return false;
    InPlaceTimes& times = profile.in_place[network];
    for (const auto& [key, value] : parts.items()) {
      const auto time_ns = time_in(&value);
      if (!time_ns) return false;
      times[key] = *time_ns;
    }
  }
  return true;
}

}  // namespace

std::string picture_key(const network::Shape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

std::string convolution_key(const network::Layer& layer) {
  const auto& it = std::get<network::Convolutional>(layer.operation);
  return fmt::format("{} {} filters {}x{} stride {} padding {} groups {}", picture_key(layer.input),
                     it.filters, it.size, it.size, it.stride, it.padding, it.groups);
}

std::string network_key(const network::Network& network) {
  return fmt::format("{:016x} of {}", network::fingerprint(network), picture_key(network.input));
}

std::string other_key(const network::Layer& layer) {
  const network::Activation activation = network::activation_of(layer);
  const char* const function = network::activation_name(activation);
  if (std::holds_alternative<network::Convolutional>(layer.operation)) {
    if (activation == network::Activation::linear) return "";
    return fmt::format("{} of {}", function, picture_key(layer.output));
  }
  std::string key =
      fmt::format("{} {} to {}, activation {}", network::section_name(layer.operation),
                  picture_key(layer.input), picture_key(layer.output), function);
  if (const auto* it = std::get_if<network::MaxPool>(&layer.operation)) {
    key += fmt::format(", size {} stride {} padding {}", it->size, it->stride, it->padding);
  }
  return key;
}

double fastest_ns(const LayoutTimes& times) {
  return *std::min_element(times.begin(), times.end());
}

std::string profile_text(const Profile& profile) {
  nlohmann::ordered_json json = {{"schema_version", schema_version},
                                 {"machine", profile.machine},
                                 {"convolutions", nlohmann::ordered_json::object()},
                                 {"layout_changes_ns", profile.changes},
                                 {"others_ns", profile.others},
                                 {"in_place_ns", profile.in_place}};
  for (const auto& [key, candidates] : profile.convolutions) {
    auto& list = json["convolutions"][key] = nlohmann::ordered_json::array();
    for (const MeasuredCandidate& it : candidates) {
      list.push_back({{"name", it.traits.name},
                      {"layout_in", ops::layout_name(it.traits.layout_in)},
                      {"layout_out", ops::layout_name(it.traits.layout_out)},
                      {"workspace_bytes", it.traits.workspace_bytes},
                      {"packed_bytes", it.traits.packed_bytes},
                      {"time_ns", it.time_ns}});
    }
  }
  return json.dump(1) + "\n";
}

Result<Profile> parse_profile(std::string_view text, const std::string& machine,
                              const std::string& name) {
  const std::string hint = fmt::format("rm {}; it is made again", name);
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  const Json* const version = find_field(json, "schema_version");
  if (version == nullptr || *version != schema_version) {
    return fail(fmt::format("{} is not a profile of this version of weightpager", name), hint);
  }
  Profile profile;
  const Json* const of = find_field(json, "machine");
  if (of == nullptr || !of->is_string() || *of != machine) {
    return fail(fmt::format("{} is the profile of another machine, expected '{}'", name, machine),
                hint);
  }
  profile.machine = machine;
  const Json* const convolutions = find_field(json, "convolutions");
  const Json* const changes = find_field(json, "layout_changes_ns");
  if (convolutions == nullptr || !read_convolutions(*convolutions, profile)) {
    return fail(fmt::format("{}: \"convolutions\" is damaged", name), hint);
  }
  if (changes == nullptr || !read_changes(*changes, profile)) {
    return fail(fmt::format("{}: \"layout_changes_ns\" is damaged", name), hint);
  }
  const Json* const others = find_field(json, "others_ns");
  if (others == nullptr || !read_others(*others, profile)) {
    return fail(fmt::format("{}: \"others_ns\" is damaged", name), hint);
  }
  const Json* const in_place = find_field(json, "in_place_ns");
  if (in_place == nullptr || !read_in_place(*in_place, profile)) {
    return fail(fmt::format("{}: \"in_place_ns\" is damaged", name), hint);
  }
  return profile;
}

}  // namespace weightpager::plan
