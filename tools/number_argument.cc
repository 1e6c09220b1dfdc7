#include "tools/number_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

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

Result<uint32_t> parse_count(const std::string& text, const std::string& option, uint32_t most) {
  uint32_t value = 0;
  if (parse(text, value) && value > 0 && value <= most) return value;
  return fail(fmt::format("{} {}: expected a number from 1 to {}", option, text, most));
}

Result<float> parse_share(const std::string& text, const std::string& option) {
  float value = 0;
  if (parse(text, value) && value >= 0 && value <= 1) return value;
  return fail(fmt::format("{} {}: expected a number from 0 to 1", option, text));
}

Result<int> parse_threads(const Arguments& arguments) {
  const auto given = arguments.value("threads");
  if (!given) return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto threads = parse_count(*given, "--threads", threads_max);
  if (!threads) return tl::make_unexpected(threads.error());
  return static_cast<int>(*threads);
}

}  // namespace weightpager::tools
