#include "tools/report/table.h"

#include <fmt/format.h>

#include "pager/base/assert.h"

namespace weightpager::tools {
namespace {

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char letter : text) {
    if (letter == '|') cell += '\\';
    cell += letter == '\n' ? ' ' : letter;
  }
  return cell;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += fmt::format(" {} |", markdown_cell(cell));
  return row + "\n";
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char letter : text) {
    if (letter == '"') cell += '"';
    cell += letter;
  }
  return cell + '"';
}

std::string csv_row(const std::vector<std::string>& cells) {
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) row += (i == 0 ? "" : ",") + csv_cell(cells[i]);
  return row + "\r\n";
}

}  // namespace

std::string markdown_of(const Table& table) {
  std::string text = fmt::format("**{}**\n\n", table.title);
  text += markdown_row(table.columns) + "|";
  for (size_t i = 0; i < table.columns.size(); ++i) text += "---|";
  text += "\n";
  for (const auto& row : table.rows) {
    WP_ASSERT(row.size() == table.columns.size());
    text += markdown_row(row);
  }
  if (!table.note.empty()) text += "\n" + table.note + "\n";
  return text + "\n";
}

std::string csv_of(const Table& table) {
  std::string text = csv_row(table.columns);
  for (const auto& row : table.rows) text += csv_row(row);
  return text;
}

}  // namespace weightpager::tools
