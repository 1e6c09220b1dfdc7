#include "runtime/memory/records_file.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "pager/model/header_reader.h"
#include "pager/model/strict_json.h"

namespace weightpager::memory {
namespace {

using model::describe;
using model::JsonPath;
using model::JsonScalar;

constexpr uint64_t text_bytes_max = 16 * MiB;
struct NumberRule {
  const char* name;
  uint64_t least;
  uint64_t most;
};
constexpr NumberRule an_operation = {"an operation", 0, record_operation_max};
constexpr NumberRule a_size = {"a size", 1, record_bytes_max};
constexpr NumberRule a_tensor = {"a tensor", 0, records_max - 1};

/// A key whose value is an array of arrays of so many numbers.
struct ListRule {
  const char* key;
  /// For errors.
  const char* what_it_has;
  const char* numbers_in_one;
  std::span<const NumberRule> numbers;
};
constexpr NumberRule record_numbers[] = {an_operation, an_operation, a_size};
constexpr NumberRule known_after_numbers[] = {a_tensor, an_operation};
constexpr ListRule records_rule = {"records",
                                   "records as arrays of first operation, last operation and bytes",
                                   "three numbers in a record", record_numbers};
constexpr ListRule known_after_rule = {
    "known_after", "known_after as arrays of tensor and operation",
    "two numbers in an element of known_after", known_after_numbers};

class RecordsHandler final : public model::JsonHandler {
 public:
  Records records;

  bool on_start(const JsonPath& path, bool is_object) override {
    if (path.empty()) return is_object || refuse("an object with records", "an array");
    const ListRule* const rule = rule_of(path);
    if (rule == nullptr) return true;
    if (is_object || path.size() > 2) {
      return refuse(rule->what_it_has, is_object ? "an object" : "an array");
    }
    const size_t count = rule == &records_rule ? records.tensors.size() : late_.size();
    if (path.size() == 2 && count == records_max) {
      return refuse(fmt::format("{} {} at most", records_max, rule->key), "more");
    }
    numbers_.clear();
    return true;
  }

  bool on_scalar(const JsonPath& path, const JsonScalar& value) override {
    if (path.empty()) return refuse("an object with records", describe(value));
    const ListRule* const rule = rule_of(path);
    if (rule == nullptr) return true;
    const auto* number = std::get_if<uint64_t>(&value);
    if (path.size() != 3 || number == nullptr) return refuse(rule->what_it_has, describe(value));
    if (numbers_.size() == rule->numbers.size()) return refuse(rule->numbers_in_one, "more");
    const NumberRule& may_be = rule->numbers[numbers_.size()];
    if (*number < may_be.least || *number > may_be.most) {
      return refuse(fmt::format("{} from {} to {}", may_be.name, may_be.least, may_be.most),
                    describe(value));
    }
    numbers_.push_back(*number);
    return true;
  }

  bool on_end(const JsonPath& path) override {
    if (path.empty()) return take_all();
    const ListRule* const rule = rule_of(path);
    if (rule == nullptr || path.size() != 2) return true;
    if (numbers_.size() != rule->numbers.size()) {
      return refuse(rule->numbers_in_one, fmt::to_string(numbers_.size()));
    }
    return rule == &records_rule ? take_record() : take_known_after();
  }

 private:
  /// An element of known_after, and where it ends in the text.
  struct Late {
    uint64_t tensor = 0;
    uint32_t operation = 0;
    uint64_t offset_bytes = 0;
  };

  static const ListRule* rule_of(const JsonPath& path) {
    for (const ListRule* const rule : {&records_rule, &known_after_rule}) {
      if (path[0] == rule->key) return rule;
    }
    return nullptr;
  }

  bool take_record() {
    if (numbers_[0] > numbers_[1]) {
      return refuse(fmt::format("a last operation from {} on", numbers_[0]),
                    fmt::to_string(numbers_[1]));
    }
    records.tensors.push_back(
        {static_cast<uint32_t>(numbers_[0]), static_cast<uint32_t>(numbers_[1]), numbers_[2]});
    return true;
  }

  bool take_known_after() {
    late_.push_back({numbers_[0], static_cast<uint32_t>(numbers_[1]), offset_bytes()});
    return true;
  }

  /// The keys may have any order, so what known_after says of tensors is looked at last.
  bool take_all() {
    const size_t count = records.tensors.size();
    if (count == 0) return refuse("records", "none");
    records.known_after.resize(count);
    for (const Late& late : late_) {
      if (late.tensor >= count) {
        return refuse_at(late.offset_bytes, fmt::format("a tensor from 0 to {}", count - 1),
                         fmt::to_string(late.tensor));
      }
      if (records.known_after[late.tensor]) {
        return refuse_at(late.offset_bytes, "a tensor that known_after has not named before",
                         fmt::to_string(late.tensor));
      }
      const uint32_t first = records.tensors[late.tensor].first_operation;
      if (late.operation >= first) {
        return refuse_at(
            late.offset_bytes,
            fmt::format("an operation before {}, with which tensor {} begins", first, late.tensor),
            fmt::to_string(late.operation));
      }
      records.known_after[late.tensor] = late.operation;
    }
    return true;
  }

  std::vector<uint64_t> numbers_;  // of the element that is read
  std::vector<Late> late_;
};

}  // namespace

Result<Records> parse_records(std::string_view text, const std::string& name) {
  RecordsHandler handler;
  if (const auto error = model::parse_strict_json(text, handler)) {
    return fail(
        fmt::format("{}, byte {}: expected {}, found {}", name, error->offset_bytes,
                    error->expected, error->found),
        R"(a file of records says {"records": [[first operation, last operation, bytes], …]})");
  }
  return std::move(handler.records);
}

Result<Records> read_records(const std::string& path) {
  const auto text = read_whole_file(path, text_bytes_max, "a file of records");
  if (!text) return tl::make_unexpected(text.error());
  return parse_records(*text, path);
}

}  // namespace weightpager::memory
