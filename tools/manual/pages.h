// The commands as data, for what is written about them: man pages and the shells' completions.
//
// Everything comes from the tables that the commands parse their own arguments with, so that a flag
// cannot be missing here, or be one that there is not.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools::manual {

/// A command that has a table of its own.
struct Page {
  Command command;
  /// One line: what it is for.
  std::string brief;
};

/// `weightpager` and all below it, each before its subcommands.
std::vector<Page> all_pages();

/// "weightpager-bench-policies"
std::string page_name(const Command& command);

/// What can stand for an option's value, or behind the options.
enum class ValueKind { none, text, file, directory, word, words, pager, engine };

struct Values {
  ValueKind kind = ValueKind::none;
  /// Of ValueKind::word, and of ValueKind::words, which stand between commas.
  std::vector<std::string> choices;
};

Values values_of(const Option& option);
/// Whether some of its subcommands have no table of their own, but share the command's.
bool takes_words_itself(const Command& command);
ValueKind operands_of(const Command& command);

/// Of all forms of the command, each once.
std::vector<Option> completed_options(const Command& command);

}  // namespace weightpager::tools::manual
