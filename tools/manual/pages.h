// The commands as data, for the man pages and the shells' completion.
//
// Everything comes from the tables that the commands parse their own arguments with. So no flag can
// be missing here, and every flag here exists.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools::manual {

/// A command that has a table of its own.
struct Page {
  Command command;
  /// The purpose in one line.
  std::string brief;
};

/// `weightpager` and all commands below it, each before its subcommands.
std::vector<Page> all_pages();

/// "weightpager-bench-policies"
std::string page_name(const Command& command);

/// The kind of an option's value, or of the operands.
enum class ValueKind { none, text, file, directory, word, words, pager, engine };

struct Values {
  ValueKind kind = ValueKind::none;
  /// The words for ValueKind::word, and for ValueKind::words, which are separated by commas.
  std::vector<std::string> choices;
};

Values values_of(const Option& option);
/// Whether some of its subcommands have no table of their own, but share the command's.
bool takes_words_itself(const Command& command);
ValueKind operands_of(const Command& command);

/// The options of all forms of the command, each once.
std::vector<Option> completed_options(const Command& command);

}  // namespace weightpager::tools::manual
