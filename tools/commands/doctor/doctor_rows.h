// The judgement of `weightpager doctor`: facts in, rows out, nothing else looked at.
//
// A row is one thing that a run needs: whether it is well, what was found, and the command that
// mends it. `fail` means that a run is refused or cannot work, `warn` that it works but slower, or
// with something missing; `information` is never wrong.
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
  /// What mends it; "" unless the verdict is warn or fail.
  std::string cure;
  /// What `finding` says, for programs.
  nlohmann::ordered_json facts;
};

/// In the order in which they are shown. The rows of a model are there if there is a model.
std::vector<Row> judge(const Facts& facts);

/// The worst of the rows'; ok if there is none worse.
RowVerdict worst(const std::vector<Row>& rows);

}  // namespace weightpager::tools
