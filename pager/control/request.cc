#include "pager/control/request.h"

#include <algorithm>

namespace weightpager::control {
namespace {

/// Collects the values of one flat object.
class FlatObject : public model::JsonHandler {
 public:
  std::map<std::string, model::JsonScalar> values;

  bool on_scalar(const model::JsonPath& path, const model::JsonScalar& value) override {
    if (path.size() != 1 || path[0] == "[]") return refuse("an object", model::describe(value));
    values[path[0]] = value;
    return true;
  }
  bool on_start(const model::JsonPath& path, bool is_object) override {
    if (path.empty() && is_object) return true;
    return refuse("an object of texts and numbers", is_object ? "an object" : "an array");
  }
  bool on_end(const model::JsonPath&) override { return true; }
};

tl::unexpected<Error> wrong_kind(const std::string& key, const char* wanted,
                                 const model::JsonScalar& found) {
  return fail(key + ": expected " + wanted + ", found " + model::describe(found));
}

}  // namespace

Status ControlRequest::expect_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : values_) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    std::string known;
    for (const std::string_view it : keys) known += (known.empty() ? "" : ", ") + std::string(it);
    return fail(name_ + ": unknown key " + model::describe(key),
                known.empty() ? "it takes none" : "it takes " + known);
  }
  return {};
}

Result<std::optional<std::string>> ControlRequest::text(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  return wrong_kind(key, "a text", found->second);
}

Result<std::optional<uint64_t>> ControlRequest::number(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(&found->second)) return *number;
  const auto* whole = std::get_if<int64_t>(&found->second);
  if (whole != nullptr && *whole >= 0) return static_cast<uint64_t>(*whole);
  return wrong_kind(key, "a whole number from 0 up", found->second);
}

Result<ControlRequest> parse_request(std::string_view line) {
  FlatObject object;
  if (const auto error = model::parse_strict_json(line, object)) {
    return fail("byte " + std::to_string(error->offset_bytes) + " of the request: expected " +
                    error->expected + ", found " + error->found,
                "a request is one line: {\"version\":1,\"request\":\"stat\"}");
  }
  ControlRequest request;
  request.values_ = std::move(object.values);
  const auto version = request.number("version");
  if (!version) return tl::make_unexpected(version.error());
  if (version->value_or(protocol_version) != protocol_version) {
    return fail("version " + std::to_string(**version) + " of the protocol is not known",
                "this process speaks version " + std::to_string(protocol_version));
  }
  const auto name = request.text("request");
  if (!name) return tl::make_unexpected(name.error());
  if (!*name) return fail("no \"request\" in the request", "hello lists what there is");
  request.name_ = **name;
  request.values_.erase("version");
  request.values_.erase("request");
  return request;
}

}  // namespace weightpager::control
