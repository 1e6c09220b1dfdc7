// One line for each power of two, as in bpftrace. The percentiles come from the finer buckets.
#include "tools/commands/hist.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/cli/cli.h"
#include "tools/live/live_process.h"

namespace weightpager::tools {
namespace {

using Json = control::Client::Json;

constexpr uint64_t bar_columns = 44;

}  // namespace

Command hist_description() {
  return {.name = "weightpager hist",
          .purpose =
              "Shows how long touches waited for their data, and how long reads took, since the\n"
              "pager started. There are three kinds of touches, by the state of their chunk:\n"
              "demand (absent), late (being read) and tripwire (ready).\n",
          .usage = "  weightpager hist PID [--json]\n",
          .options = {{0, "json", "", "print the counts as one JSON object"}},
          .examples = "  weightpager hist 4711\n",
          .exit_status = live_exit_status,
          .operands = Operands::pagers};
}

namespace {

/// The time in the largest unit that is not larger than it.
std::string duration(uint64_t ns) {
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < 1'000'000) return fmt::format("{:.3g} us", static_cast<double>(ns) / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.3g} ms", static_cast<double>(ns) / 1e6);
  return fmt::format("{:.3g} s", static_cast<double>(ns) / 1e9);
}

void print_histogram(const std::string& name, const Json& histogram) {
  const auto count = histogram.at("count").get<uint64_t>();
  fmt::print("{}: {}", name, count);
  if (count == 0) return fmt::print("\n");
  fmt::print(", mean {}", duration(histogram.at("sum_ns").get<uint64_t>() / count));
  constexpr std::pair<const char*, const char*> shares[] = {{"half", "p50_ns"},
                                                            {"90 %", "p90_ns"},
                                                            {"99 %", "p99_ns"},
                                                            {"99.9 %", "p999_ns"},
                                                            {"all", "max_ns"}};
  fmt::print("\n ");
  for (const auto& [share, key] : shares) {
    fmt::print(" {} within {}{}", share, duration(histogram.at(key).get<uint64_t>()),
               key == shares[std::size(shares) - 1].second ? "\n" : ",");
  }
  std::map<int, uint64_t> counts;  // by power of two
  for (const Json& bucket : histogram.at("buckets")) {
    counts[std::bit_width(bucket.at(0).get<uint64_t>())] += bucket.at(2).get<uint64_t>();
  }
  uint64_t most = 0;
  for (const auto& [power, in_it] : counts) most = std::max(most, in_it);
  for (int power = counts.begin()->first; power <= counts.rbegin()->first; ++power) {
    const uint64_t in_it = counts.count(power) > 0 ? counts[power] : 0;
    fmt::print("  < {:>8} {:>9} |{:<{}}|\n", duration(uint64_t{1} << power), in_it,
               std::string((in_it * bar_columns + most - 1) / most, '@'), bar_columns);
  }
}

}  // namespace

int hist_command(const std::vector<std::string>& words) {
  const Command command = hist_description();
  return run_live_command(command, words, [&](const Arguments& arguments) -> int {
    auto client = connect_to_operand(command, arguments);
    if (!client) return client.error();
    const auto answer = client->ask(request_of("histograms"));
    if (!answer) return live_failure(answer.error());
    if (arguments.has("json")) {
      print(stdout, answer->dump() + "\n");
      return exit_success;
    }
    for (const auto& [name, histogram] : answer->at("histograms").items()) {
      print_histogram(name, histogram);
    }
    return exit_success;
  });
}

}  // namespace weightpager::tools
