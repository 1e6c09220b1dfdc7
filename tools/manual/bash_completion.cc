// Completion for bash: two tables as `case` statements, which completion.bash uses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/manual/completion.h"

namespace weightpager::tools::manual {
namespace {

const char* kind_word(ValueKind kind) {
  switch (kind) {
    case ValueKind::none:
      return "none";
    case ValueKind::text:
      return "text";
    case ValueKind::file:
      return "file";
    case ValueKind::directory:
      return "directory";
    case ValueKind::word:
      return "word";
    case ValueKind::words:
      return "words";
    case ValueKind::pager:
      return "pager";
    case ValueKind::engine:
      return "engine";
  }
  return "";
}

std::string command_case(const Command& command) {
  std::vector<std::string> subcommands;
  for (const Subcommand& it : command.subcommands) subcommands.push_back(it.name);
  std::vector<std::string> options;
  for (const Option& it : completed_options(command)) {
    options.push_back("--" + it.name);
    if (it.letter) options.push_back(fmt::format("-{}", it.letter));
  }
  return fmt::format(
      "    '{}')\n      subcommands='{}' operands={}\n      options='{}'\n      ;;\n", command.name,
      fmt::join(subcommands, " "), kind_word(operands_of(command)), fmt::join(options, " "));
}

std::string value_case(const Command& command, const Option& option) {
  const Values values = values_of(option);
  if (values.kind == ValueKind::none) return "";
  std::string patterns = fmt::format("'{} --{}'", command.name, option.name);
  if (option.letter) patterns += fmt::format(" | '{} -{}'", command.name, option.letter);
  return fmt::format("    {}) kind={} choices='{}' ;;\n", patterns, kind_word(values.kind),
                     fmt::join(values.choices, " "));
}

}  // namespace

std::string bash_completion(const std::vector<Page>& pages) {
  std::string commands;
  std::string values;
  for (const Page& page : pages) {
    commands += command_case(page.command);
    for (const Option& it : completed_options(page.command)) values += value_case(page.command, it);
  }
  return "\n# Sets what there is behind the command $1.\n_weightpager_command() {\n  case $1 in\n" +
         commands + "    *) return 1 ;;\n  esac\n}\n" +
         "\n# Sets what the value of option $2 of the command $1 can be; fails for flags.\n"
         "_weightpager_value() {\n  case \"$1 $2\" in\n" +
         values + "    *) return 1 ;;\n  esac\n}\n";
}

}  // namespace weightpager::tools::manual
