// JSON out of a file that nobody vouches for.
//
// A handler is told of one value after the other, with the path that leads to it; nothing is built
// in memory. Duplicate keys, which readers resolve differently, and deep nesting are refused. The
// text is parsed without recursion and without exceptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weightpager::model {

/// `null` is monostate. Integers above 2^63 are doubles if they do not fit into uint64_t.
using JsonScalar = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string>;

/// The keys that lead to a value; the elements of an array all have the key "[]".
using JsonPath = std::vector<std::string>;

struct JsonError {
  /// In the text: behind what could not be accepted.
  uint64_t offset_bytes = 0;
  std::string expected;
  std::string found;
};

/// What a format does with the values of its JSON. All functions return whether to go on; who
/// returns false has called `refuse`.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;

  virtual bool on_scalar(const JsonPath& path, const JsonScalar& value) = 0;
  /// An object or an array starts or ends.
  virtual bool on_start(const JsonPath& path, bool is_object) = 0;
  virtual bool on_end(const JsonPath& path) = 0;

  /// Where the parser is in the text.
  uint64_t offset_bytes() const { return offset_bytes_; }
  bool refuse(std::string expected, std::string found) {
    return refuse_at(offset_bytes_, std::move(expected), std::move(found));
  }
  /// For what turns out to be wrong only when more has been read.
  bool refuse_at(uint64_t offset_bytes, std::string expected, std::string found);

 private:
  friend std::optional<JsonError> parse_strict_json(std::string_view text, JsonHandler& handler);

  uint64_t offset_bytes_ = 0;
  std::optional<JsonError> error_;
};

/// Parses all of `text`, which is one JSON value. Returns what is wrong with it, if anything is.
std::optional<JsonError> parse_strict_json(std::string_view text, JsonHandler& handler);

/// A value for an error message: `12`, `'text'`, `true`.
std::string describe(const JsonScalar& value);

}  // namespace weightpager::model
