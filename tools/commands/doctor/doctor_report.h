// How the rows of `weightpager doctor` are shown: a table for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/commands/doctor/doctor_rows.h"

namespace weightpager::tools {

/// One line a row, and below it the cure of what is wrong; the last line counts. With `coloured`
/// the verdicts are (escape sequences of ECMA-48).
std::string doctor_table(const std::vector<Row>& rows, bool coloured);

/// The schema is in docs/reference/doctor.md.
std::string doctor_json(const std::vector<Row>& rows);

}  // namespace weightpager::tools
