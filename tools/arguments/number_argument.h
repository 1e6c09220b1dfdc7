// Values of options: one parser for each kind of value, and bounds for each.
//
// A user can write values that no command can use: "inf", a million terabytes, a tile of no bytes.
// So each kind has bounds here. They are wide enough for every machine, and narrow enough that no
// later arithmetic overflows. A command that knows better narrows them. Errors name the option and
// the values that it takes. Empty values have been refused earlier (tools/cli/cli.h); windows are
// parsed in window_argument.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "pager/base/units.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// Both ends belong to the range.
struct NumberRange {
  double least = 0;
  double most = 0;
};
/// Speeds of disks, and of computing through memory: from a kilobyte to a petabyte a second.
inline constexpr NumberRange bandwidths_gb_per_s = {1e-6, 1e6};
/// Times in milliseconds: from a nanosecond to a day.
inline constexpr NumberRange times_ms = {1e-6, 86.4e6};
/// How unevenly a router draws its experts.
inline constexpr NumberRange zipf_exponents = {1e-3, 100};
/// 1 PiB: the largest size that a command line may have.
inline constexpr uint64_t size_bytes_max = uint64_t{1} << 50;

/// A whole number; `option` names the flag in the message ("--seed").
Result<uint64_t> parse_whole(const std::string& text, const std::string& option, uint64_t least,
                             uint64_t most);
/// A whole number from 1 to `most`.
Result<uint32_t> parse_count(const std::string& text, const std::string& option, uint32_t most);

/// A number from 0 to 1.
Result<float> parse_share(const std::string& text, const std::string& option);

/// The words between separators, as in "a,b"; an empty text is one empty word.
std::vector<std::string> split_at(const std::string& text, char separator);

/// A number such as "0.5".
Result<double> parse_number(const std::string& text, const std::string& option,
                            const NumberRange& range);

/// Numbers with commas between them: "0.5,1,7".
Result<std::vector<double>> parse_numbers(const std::string& text, const std::string& option,
                                          const NumberRange& range);

/// A size such as "4MiB", in bytes, from `least_bytes` to size_bytes_max.
Result<uint64_t> parse_bytes(const std::string& text, const std::string& option,
                             uint64_t least_bytes = 1);

/// Sizes of a page or more with commas between them, each rounded down to pages: "4MiB,512KiB".
Result<std::vector<uint64_t>> parse_sizes(const std::string& text, const std::string& option);

/// Nanoseconds of "1s", "1.5s", "250ms", "100us", "2min".
Result<uint64_t> parse_duration(const std::string& text, const std::string& option,
                                uint64_t least_ns = 1);

/// `--time-limit`: the time that a search may take, from now on. Half a minute without the option;
/// 0 is allowed.
Option time_limit_option();
Result<TimeLimit> parse_time_limit(const Arguments& arguments);

/// `--threads`; without the option one for each processor.
Result<int> parse_threads(const Arguments& arguments);

}  // namespace weightpager::tools
