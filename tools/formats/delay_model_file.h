// A machine's delay model in a file: what `weightpager bench blocks --json FILE` writes, among its
// samples, and what `--profile FILE` of `plan budgets` and `infer` reads.
#pragma once

#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "runtime/budget/delay_model.h"

namespace weightpager::tools {

/// The model where there is no file: 2 GB/s, 80 operations per nanosecond.
inline constexpr budget::DelayModel two_processors = {.read_ns_per_byte = 0.5,
                                                      .read_ns_per_block = 50'000,
                                                      .kernel_ns_per_operation = 1 / 80.0,
                                                      .kernel_ns_per_layer = 20'000};

/// "model" of the file, which is one JSON object. Numbers below 0 or beyond reason are refused.
/// "": `two_processors`.
Result<budget::DelayModel> read_delay_model(const std::string& path);
/// `path` is what errors call the text.
Result<budget::DelayModel> parse_delay_model(std::string_view text, const std::string& path);

/// The samples, the model, and how well it fits.
std::string delay_model_json(const std::vector<budget::Sample>& samples,
                             const budget::FittedModel& fitted);

}  // namespace weightpager::tools
