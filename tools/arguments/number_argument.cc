#include "tools/arguments/number_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "pager/base/units.h"

namespace weightpager::tools {
namespace {

constexpr uint32_t threads_max = 1024;

template <typename Number>
bool parse(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stopped_at, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc{} && stopped_at == end;
}

}  // namespace

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

Result<uint64_t> parse_whole(const std::string& text, const std::string& option, uint64_t least,
                             uint64_t most) {
  uint64_t value = 0;
  if (parse(text, value) && value >= least && value <= most) return value;
  return fail(fmt::format("{} {}: expected a number from {} to {}", option, text, least, most));
}

Result<uint32_t> parse_count(const std::string& text, const std::string& option, uint32_t most) {
  const auto value = parse_whole(text, option, 1, most);
  if (!value) return tl::make_unexpected(value.error());
  return static_cast<uint32_t>(*value);
}

Result<uint64_t> parse_duration(const std::string& text, const std::string& option,
                                uint64_t least_ns) {
  constexpr std::pair<std::string_view, double> units[] = {
      {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}};
  constexpr double duration_ns_max = 1e15;
  const size_t unit_begin = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit = std::string_view(text).substr(unit_begin);
  double value = 0;
  const bool is_number = parse(text.substr(0, unit_begin), value) && value >= 0;
  for (const auto& [name, unit_ns] : units) {
    const double ns = value * unit_ns;
    const bool is_fine =
        is_number && unit == name && ns >= static_cast<double>(least_ns) && ns <= duration_ns_max;
    if (is_fine) return static_cast<uint64_t>(ns);
  }
  return fail(fmt::format("{} {}: expected a time", option, text), "as 250ms, 1s, 1.5s, 2min");
}

Result<float> parse_share(const std::string& text, const std::string& option) {
  float value = 0;
  if (parse(text, value) && value >= 0 && value <= 1) return value;
  return fail(fmt::format("{} {}: expected a number from 0 to 1", option, text));
}

Result<double> parse_number(const std::string& text, const std::string& option,
                            const NumberRange& range) {
  double value = 0;
  // For "nan" neither comparison holds.
  if (parse(text, value) && value >= range.least && value <= range.most) return value;
  return fail(
      fmt::format("{} {}: expected a number from {} to {}", option, text, range.least, range.most));
}

Result<std::vector<double>> parse_numbers(const std::string& text, const std::string& option,
                                          const NumberRange& range) {
  std::vector<double> values;
  for (const std::string& word : split_at(text, ',')) {
    const auto value = parse_number(word, option, range);
    if (!value) return tl::make_unexpected(value.error());
    values.push_back(*value);
  }
  return values;
}

Result<uint64_t> parse_bytes(const std::string& text, const std::string& option,
                             uint64_t least_bytes) {
  const auto size = parse_size(text, option);
  if (!size) return size;
  if (*size >= least_bytes && *size <= size_bytes_max) return size;
  return fail(fmt::format("{} {}: expected a size from {} to {}", option, text,
                          format_size(least_bytes), format_size(size_bytes_max)));
}

Result<std::vector<uint64_t>> parse_sizes(const std::string& text, const std::string& option) {
  std::vector<uint64_t> sizes;
  for (const std::string& word : split_at(text, ',')) {
    const auto size = parse_bytes(word, option, os_page_bytes);
    if (!size) return tl::make_unexpected(size.error());
    sizes.push_back(round_down(*size, os_page_bytes));
  }
  return sizes;
}

Option time_limit_option() {
  return {0, "time-limit", "TIME",
          "the time that a search may take; it then shows the best\n"
          "result so far (30s; 0s takes what is found at once)"};
}

Result<TimeLimit> parse_time_limit(const Arguments& arguments) {
  const auto ns = parse_duration(arguments.value("time-limit").value_or("30s"), "--time-limit", 0);
  if (!ns) return tl::make_unexpected(ns.error());
  return TimeLimit(static_cast<double>(*ns) / 1e9);
}

Result<int> parse_threads(const Arguments& arguments) {
  const auto given = arguments.value("threads");
  if (!given) return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto threads = parse_count(*given, "--threads", threads_max);
  if (!threads) return tl::make_unexpected(threads.error());
  return static_cast<int>(*threads);
}

}  // namespace weightpager::tools
