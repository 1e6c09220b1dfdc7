#include "tools/commands/doctor/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace weightpager::tools {
namespace {

constexpr int doctor_schema_version = 1;
constexpr size_t verdict_width = 4;

const char* colour(RowVerdict verdict) {
  switch (verdict) {
    case RowVerdict::information:
      return "\033[2m";
    case RowVerdict::ok:
      return "\033[32m";
    case RowVerdict::warn:
      return "\033[33m";
    case RowVerdict::fail:
      return "\033[1;31m";
  }
  return "";
}

std::string title(const Row& row) {
  std::string words = row.id;
  std::replace(words.begin(), words.end(), '_', ' ');
  // The kernel's own names keep their underscore.
  return row.id == "io_uring" || row.id == "max_map_count" ? row.id : words;
}

std::string counted(const std::vector<Row>& rows) {
  const auto count = [&](RowVerdict verdict) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const Row& row) { return row.verdict == verdict; });
  };
  const auto failed = count(RowVerdict::fail);
  const auto warned = count(RowVerdict::warn);
  if (failed == 0 && warned == 0) return "all is well\n";
  return fmt::format("{} failed, {} warned\n", failed, warned);
}

}  // namespace

std::string doctor_table(const std::vector<Row>& rows, bool coloured) {
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, title(row).size());
  std::string text;
  for (const Row& row : rows) {
    std::string verdict = fmt::format("{:<{}}", verdict_name(row.verdict), verdict_width);
    if (coloured) verdict = fmt::format("{}{}\033[0m", colour(row.verdict), verdict);
    text += fmt::format("{}  {:<{}}  {}\n", verdict, title(row), width, row.finding);
    if (row.cure.empty()) continue;
    text += fmt::format("{:{}}cure: {}\n", "", verdict_width + 2 + width + 2, row.cure);
  }
  return text + counted(rows);
}

std::string doctor_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json json{{"schema_version", doctor_schema_version},
                              {"verdict", verdict_name(worst(rows))},
                              {"rows", nlohmann::json::array()}};
  for (const Row& row : rows) {
    nlohmann::ordered_json cure = nullptr;
    if (!row.cure.empty()) cure = row.cure;
    json["rows"].push_back({{"id", row.id},
                            {"verdict", verdict_name(row.verdict)},
                            {"finding", row.finding},
                            {"cure", cure},
                            {"facts", row.facts}});
  }
  // Paths need not be UTF-8, but JSON must be.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace weightpager::tools
