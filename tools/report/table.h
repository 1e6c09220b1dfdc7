// Tables of reports, as Markdown and as CSV.
#pragma once

#include <string>
#include <vector>

namespace weightpager::tools {

struct Table {
  std::string title;
  std::vector<std::string> columns;
  /// Each has as many cells as there are columns.
  std::vector<std::vector<std::string>> rows;
  /// What a reader must know to read it; empty if nothing.
  std::string note;
};

/// Title, table and note, with an empty line after each.
std::string markdown_of(const Table& table);

/// The columns' names, then the rows, by RFC 4180.
std::string csv_of(const Table& table);

}  // namespace weightpager::tools
