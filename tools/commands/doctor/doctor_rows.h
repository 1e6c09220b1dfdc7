// The judgement of `weightpager doctor`: facts go in, rows come out, and nothing else is looked at.
//
// A row is about one thing that a run needs. It has a verdict, the finding, and the command that
// fixes the problem. `fail` means that a run is refused or cannot work; `warn`, that it works, but
// is slower or lacks something; `information` is never a problem.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/commands/doctor/doctor_facts.h"

namespace weightpager::tools {

enum class RowVerdict { information, ok, warn, fail };

/// "info", "ok", "warn", "fail".
const char* verdict_name(RowVerdict verdict);

struct Row {
  /// A word of the schema in docs/reference/doctor.md: "huge_pages".
  std::string id;
  RowVerdict verdict = RowVerdict::ok;
  /// One line for people.
  std::string finding;
  /// The fix; "" unless the verdict is warn or fail.
  std::string cure;
  /// The same facts as in `finding`, for programs.
  nlohmann::ordered_json facts;
};

/// The rows in the order in which they are shown. Those of a model are there only if there is a
/// model.
std::vector<Row> judge(const Facts& facts);

/// The worst verdict of the rows; ok if none is worse.
RowVerdict worst(const std::vector<Row>& rows);

}  // namespace weightpager::tools
