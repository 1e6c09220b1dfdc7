// A comparison of policies as text, JSON, CSV and HTML.
#pragma once

#include <string>

#include "tools/commands/bench/policy_comparison.h"

namespace weightpager::tools {

/// Text for a terminal: a table for each window.
std::string comparison_text(const PolicyComparison& comparison);
/// One object with `schema_version`; the unit in the key.
std::string comparison_json(const PolicyComparison& comparison);
/// One row for each policy and window.
std::string comparison_csv(const PolicyComparison& comparison);
/// One page that needs no other file: plots over the window, a timeline of one pass, the tables.
std::string comparison_html(const PolicyComparison& comparison);

}  // namespace weightpager::tools
