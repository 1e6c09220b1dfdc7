// A machine's delay model in a file: what `weightpager bench blocks --json FILE` writes, among its
// samples, and `plan budgets --profile FILE` reads.
#pragma once

#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "runtime/budget/delay_model.h"

namespace weightpager::tools {

/// "model" of the file, which is one JSON object. Numbers below 0 or beyond reason are refused.
Result<budget::DelayModel> read_delay_model(const std::string& path);
/// `path` is what errors call the text.
Result<budget::DelayModel> parse_delay_model(std::string_view text, const std::string& path);

/// The samples, the model, and how well it fits.
std::string delay_model_json(const std::vector<budget::Sample>& samples,
                             const budget::FittedModel& fitted);

}  // namespace weightpager::tools
