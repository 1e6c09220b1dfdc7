// Values of options: one parser for each kind, and each within bounds.
//
// What a user can write is not what a command can do: "inf", a million terabytes, a tile of no
// bytes. A kind has bounds here, wide enough for every machine and narrow enough that no arithmetic
// behind them overflows; a command narrows them where it knows better. Errors name the option and
// what it takes. Empty values are refused before (tools/cli/cli.h), windows are parsed in
// window_argument.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "pager/base/units.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// Both ends belong to it.
struct NumberRange {
  double least = 0;
  double most = 0;
};
/// Disks, and memory that computing goes through: in GB/s, a kilobyte in a second and a petabyte.
inline constexpr NumberRange bandwidths_gb_per_s = {1e-6, 1e6};
/// Of what is measured in milliseconds: a nanosecond and a day.
inline constexpr NumberRange times_ms = {1e-6, 86.4e6};
/// How unevenly a router draws its experts.
inline constexpr NumberRange zipf_exponents = {1e-3, 100};
/// 1 PiB: no size on a command line is larger.
inline constexpr uint64_t size_bytes_max = uint64_t{1} << 50;

/// A whole number; `option` names the flag in the message ("--seed").
Result<uint64_t> parse_whole(const std::string& text, const std::string& option, uint64_t least,
                             uint64_t most);
/// A whole number from 1 to `most`.
Result<uint32_t> parse_count(const std::string& text, const std::string& option, uint32_t most);

/// A number from 0 to 1.
Result<float> parse_share(const std::string& text, const std::string& option);

/// What stands between commas: "a,b"; an empty text is one empty word.
std::vector<std::string> split_at_commas(const std::string& text);

/// "0.5".
Result<double> parse_number(const std::string& text, const std::string& option,
                            const NumberRange& range);

/// With commas between them: "0.5,1,7".
Result<std::vector<double>> parse_numbers(const std::string& text, const std::string& option,
                                          const NumberRange& range);

/// "4MiB": from `least_bytes` to size_bytes_max.
Result<uint64_t> parse_bytes(const std::string& text, const std::string& option,
                             uint64_t least_bytes = 1);

/// Sizes of a page or more with commas between them, each rounded down to pages: "4MiB,512KiB".
Result<std::vector<uint64_t>> parse_sizes(const std::string& text, const std::string& option);

/// Nanoseconds of "1s", "1.5s", "250ms", "100us", "2min".
Result<uint64_t> parse_duration(const std::string& text, const std::string& option,
                                uint64_t least_ns = 1);

/// How long searches may take, from now on; half a minute where nothing is said, or no time at all.
Option time_limit_option();
Result<TimeLimit> parse_time_limit(const Arguments& arguments);

/// `--threads`: as many as there are processors, unless it says otherwise.
Result<int> parse_threads(const Arguments& arguments);

}  // namespace weightpager::tools
