// Between nlohmann's SAX parser, which knows JSON, and our handlers, which know formats.
#include "pager/model/strict_json.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "pager/model/header_reader.h"

namespace weightpager::model {
namespace {

/// Model files need 3, configurations some more.
constexpr size_t depth_max = 32;

/// Counts what the parser has taken, which it does not tell handlers itself.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* position, uint64_t* count) : position_(position), count_(count) {}
  reference operator*() const { return *position_; }
  CountingIterator& operator++() {
    ++position_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return position_ == other.position_; }
  bool operator!=(const CountingIterator& other) const { return position_ != other.position_; }

 private:
  const char* position_;
  uint64_t* count_;
};

/// Keeps the path, refuses duplicates and depth, and passes the rest on.
class StrictSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictSax(JsonHandler& handler) : handler_(handler) {}

  bool null() override { return scalar(std::monostate()); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(uint64_t{value}); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool binary(binary_t&) override { return scalar(std::monostate()); }

  bool start_object(std::size_t) override { return start(true); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return start(false); }
  bool end_array() override { return end(); }

  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second)
      return handler_.refuse("a new key", quote_name(key) + " for the second time");
    path_.back() = std::move(key);
    return true;
  }

  bool parse_error(std::size_t, const std::string& token,
                   const nlohmann::detail::exception&) override {
    return handler_.refuse("valid JSON", token.empty() ? "its end" : quote_name(token));
  }

 private:
  bool scalar(const JsonScalar& value) { return handler_.on_scalar(path_, value); }

  bool start(bool is_object) {
    if (keys_.size() == depth_max)
      return handler_.refuse(fmt::format("JSON nested at most {} deep", depth_max), "more");
    if (!handler_.on_start(path_, is_object)) return false;
    keys_.emplace_back();
    path_.emplace_back(is_object ? "" : "[]");
    return true;
  }

  bool end() {
    keys_.pop_back();
    path_.pop_back();
    return handler_.on_end(path_);
  }

  JsonHandler& handler_;
  JsonPath path_;
  /// Of the containers around the value, outermost first.
  std::vector<std::unordered_set<std::string>> keys_;
};

struct Describer {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(const std::string& text) const { return quote_name(text); }
  std::string operator()(const auto& value) const { return fmt::format("{}", value); }
};

}  // namespace

bool JsonHandler::refuse_at(uint64_t offset_bytes, std::string expected, std::string found) {
  if (!error_) error_ = JsonError{offset_bytes, std::move(expected), std::move(found)};
  return false;
}

std::optional<JsonError> parse_strict_json(std::string_view text, JsonHandler& handler) {
  StrictSax sax(handler);
  const CountingIterator begin(text.data(), &handler.offset_bytes_);
  const CountingIterator end(text.data() + text.size(), &handler.offset_bytes_);
  if (!nlohmann::json::sax_parse(begin, end, &sax)) handler.refuse("valid JSON", "something else");
  return handler.error_;
}

std::string describe(const JsonScalar& value) { return std::visit(Describer(), value); }

}  // namespace weightpager::model
