// Shows the rows of `weightpager doctor`: as a table for people, as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/commands/doctor/doctor_rows.h"

namespace weightpager::tools {

/// One line for each row, and the cure below it if something is wrong. The last line counts the
/// verdicts. With `coloured` the verdicts have colours (escape sequences of ECMA-48).
std::string doctor_table(const std::vector<Row>& rows, bool coloured);

/// The schema is in docs/reference/doctor.md.
std::string doctor_json(const std::vector<Row>& rows);

}  // namespace weightpager::tools
