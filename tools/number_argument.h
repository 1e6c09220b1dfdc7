// Numbers on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "tools/cli.h"

namespace weightpager::tools {

/// A whole number from 1 to `most`; `option` names the flag in the message ("--top").
Result<uint32_t> parse_count(const std::string& text, const std::string& option, uint32_t most);

/// A number from 0 to 1.
Result<float> parse_share(const std::string& text, const std::string& option);

/// What stands between commas: "a,b"; an empty text is one empty word.
std::vector<std::string> split_at_commas(const std::string& text);

/// A number above 0: "0.5".
Result<double> parse_number(const std::string& text, const std::string& option);

/// Numbers above 0, with commas between them: "0.5,1,7".
Result<std::vector<double>> parse_numbers(const std::string& text, const std::string& option);

/// Sizes with commas between them, each rounded down to pages: "4MiB,512KiB".
Result<std::vector<uint64_t>> parse_sizes(const std::string& text, const std::string& option);

/// Nanoseconds of "1s", "1.5s", "250ms", "100us", "2min".
Result<uint64_t> parse_duration(const std::string& text, const std::string& option);

/// `--threads`: as many as there are processors, unless it says otherwise.
Result<int> parse_threads(const Arguments& arguments);

}  // namespace weightpager::tools
