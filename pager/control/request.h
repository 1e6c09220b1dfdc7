// A request of a client of the control socket: one flat JSON object on a line, whose values are
// scalars. docs/reference/control.md has the requests.
//
// Bytes from a socket are not trusted: they are parsed without recursion and without exceptions. A
// line that is not understood is refused with a message for the client.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "pager/model/strict_json.h"

namespace weightpager::control {

inline constexpr uint64_t protocol_version = 1;

class ControlRequest {
 public:
  const std::string& name() const { return name_; }

  /// Fails if there is a value that is not among `keys`.
  Status expect_only(std::initializer_list<std::string_view> keys) const;
  bool has(const std::string& key) const { return values_.count(key) > 0; }
  /// nullopt if the request has no such value. Fails if the value is of another kind.
  Result<std::optional<std::string>> text(const std::string& key) const;
  Result<std::optional<uint64_t>> number(const std::string& key) const;

 private:
  friend Result<ControlRequest> parse_request(std::string_view line);
  std::string name_;
  std::map<std::string, model::JsonScalar> values_;
};

/// `line` comes without its end. Checks "version", which may be missing, and takes "version" and
/// "request" out of the values.
Result<ControlRequest> parse_request(std::string_view line);

}  // namespace weightpager::control
