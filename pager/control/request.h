// What a client of the control socket may say: one JSON object a line, flat, with scalars for
// values. docs/reference/control.md has the requests.
//
// Nobody vouches for what comes through a socket: it is parsed without recursion and without
// exceptions, and what is not understood is refused, with words for the client.
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
  /// Nothing where the request has no such value; fails where it is of another kind.
  Result<std::optional<std::string>> text(const std::string& key) const;
  Result<std::optional<uint64_t>> number(const std::string& key) const;

 private:
  friend Result<ControlRequest> parse_request(std::string_view line);
  std::string name_;
  std::map<std::string, model::JsonScalar> values_;
};

/// `line` without its end. Checks "version", which may be missing, and takes it out with "request".
Result<ControlRequest> parse_request(std::string_view line);

}  // namespace weightpager::control
