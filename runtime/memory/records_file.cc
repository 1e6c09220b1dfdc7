#include "runtime/memory/records_file.h"

#include <fmt/format.h>

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
constexpr const char* records_key = "records";
constexpr const char* what_records_are =
    "records as arrays of first operation, last operation and bytes";

class RecordsHandler final : public model::JsonHandler {
 public:
  std::vector<TensorUsage> records;

  bool on_start(const JsonPath& path, bool is_object) override {
    if (path.empty()) return is_object || refuse("an object with records", "an array");
    if (path[0] != records_key) return true;
    if (is_object || path.size() > 2) {
      return refuse(what_records_are, is_object ? "an object" : "an array");
    }
    if (path.size() == 2 && records.size() == records_max) {
      return refuse(fmt::format("{} records at most", records_max), "more");
    }
    numbers_.clear();
    return true;
  }

  bool on_scalar(const JsonPath& path, const JsonScalar& value) override {
    if (path.empty()) return refuse("an object with records", describe(value));
    if (path[0] != records_key) return true;
    const auto* number = std::get_if<uint64_t>(&value);
    if (path.size() != 3 || number == nullptr) return refuse(what_records_are, describe(value));
    if (numbers_.size() == 3) return refuse("three numbers in a record", "more");
    const bool is_size = numbers_.size() == 2;
    const uint64_t least = is_size ? 1 : 0;
    const uint64_t most = is_size ? record_bytes_max : record_operation_max;
    if (*number < least || *number > most) {
      return refuse(
          fmt::format("{} from {} to {}", is_size ? "a size" : "an operation", least, most),
          describe(value));
    }
    numbers_.push_back(*number);
    return true;
  }

  bool on_end(const JsonPath& path) override {
    if (path.empty()) return !records.empty() || refuse("records", "none");
    if (path[0] != records_key || path.size() != 2) return true;
    if (numbers_.size() != 3) {
      return refuse("three numbers in a record", fmt::to_string(numbers_.size()));
    }
    if (numbers_[0] > numbers_[1]) {
      return refuse(fmt::format("a last operation from {} on", numbers_[0]),
                    fmt::to_string(numbers_[1]));
    }
    records.push_back(
        {static_cast<uint32_t>(numbers_[0]), static_cast<uint32_t>(numbers_[1]), numbers_[2]});
    return true;
  }

 private:
  std::vector<uint64_t> numbers_;  // of the record that is read
};

}  // namespace

Result<std::vector<TensorUsage>> parse_records(std::string_view text, const std::string& name) {
  RecordsHandler handler;
  if (const auto error = model::parse_strict_json(text, handler)) {
    return fail(
        fmt::format("{}, byte {}: expected {}, found {}", name, error->offset_bytes,
                    error->expected, error->found),
        R"(a file of records says {"records": [[first operation, last operation, bytes], …]})");
  }
  return std::move(handler.records);
}

Result<std::vector<TensorUsage>> read_records(const std::string& path) {
  const auto text = read_whole_file(path, text_bytes_max, "a file of records");
  if (!text) return tl::make_unexpected(text.error());
  return parse_records(*text, path);
}

}  // namespace weightpager::memory
