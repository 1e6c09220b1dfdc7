// Fields of JSON texts that may come from anyone: a field that is missing or of another type reads
// as nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/ops/cpu/layout.h"

namespace weightpager::plan {

inline const nlohmann::json* find_field(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

inline std::optional<ops::Layout> layout_field(const nlohmann::json& object, const char* key) {
  const nlohmann::json* const value = find_field(object, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  for (const ops::Layout layout : ops::all_layouts) {
    if (value->get_ref<const std::string&>() == ops::layout_name(layout)) return layout;
  }
  return std::nullopt;
}

}  // namespace weightpager::plan
