// Completion for zsh: a function for each command, which passes the command's table to _arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/manual/completion.h"

namespace weightpager::tools::manual {
namespace {

/// The first line of a description, escaped for '…[…]'.
std::string described(const std::string& description) {
  std::string result;
  for (char letter : description.substr(0, description.find('\n'))) {
    if (letter == '\'') {
      result += "'\\''";
    } else if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') {
      result += std::string("\\") + letter;
    } else {
      result += letter;
    }
  }
  return result;
}

std::string action(const Values& values) {
  switch (values.kind) {
    case ValueKind::none:
    case ValueKind::text:
      return " ";
    case ValueKind::file:
      return "_files";
    case ValueKind::directory:
      return "_files -/";
    case ValueKind::word:
      return fmt::format("({})", fmt::join(values.choices, " "));
    case ValueKind::words:
      return fmt::format("_values -s , value {}", fmt::join(values.choices, " "));
    case ValueKind::pager:
      return "_weightpager_pagers";
    case ValueKind::engine:
      return "_normal";
  }
  return "";
}

/// The specification of an option. For _arguments every option may be given several times.
std::string option_spec(const Option& option) {
  const Values values = values_of(option);
  const bool is_flag = values.kind == ValueKind::none;
  const std::string rest = is_flag ? fmt::format("[{}]'", described(option.description))
                                   : fmt::format("[{}]:{}:{}'", described(option.description),
                                                 described(option.value_name), action(values));
  const std::string name = fmt::format("--{}{}", option.name, is_flag ? "" : "=");
  if (!option.letter) return fmt::format("    '*{}{}\n", name, rest);
  return fmt::format("    '*'{{-{}{},{}}}'{}\n", option.letter, is_flag ? "" : "+", name, rest);
}

std::string function_name(const Command& command) {
  std::string name = "_" + command.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::string subcommand_cases(const Command& command) {
  std::string text;
  for (const Subcommand& it : command.subcommands) {
    if (it.describe)
      text += fmt::format("        {}) {} ;;\n", it.name, function_name(it.describe()));
  }
  return text;
}

std::string command_function(const Command& command) {
  std::string specs;
  for (const Option& option : completed_options(command)) specs += option_spec(option);
  // Each line needs a backslash, which joins the lines of one call.
  for (size_t at = specs.find('\n'); at != std::string::npos; at = specs.find('\n', at + 3)) {
    specs.replace(at, 1, " \\\n");
  }
  std::string names;
  for (const Subcommand& it : command.subcommands) {
    names += fmt::format("        '{}:{}'\n", it.name, described(it.description));
  }
  const ValueKind operands = operands_of(command);
  std::string cases = subcommand_cases(command);
  std::string text = fmt::format("\n{}() {{\n", function_name(command));
  // The command takes operands besides subcommands.
  const bool takes_files = operands == ValueKind::file && !takes_words_itself(command);
  if (operands != ValueKind::none) {
    cases += fmt::format("        *) _arguments \\\n{}    '*:operand:{}' ;;\n", specs,
                         action({operands, {}}));
  }
  if (!names.empty()) {
    return text + fmt::format(
                      "  local curcontext=$curcontext state line\n  local -a names\n"
                      "  _arguments -C \\\n{}    '1:command:->command' '*::argument:->argument'\n"
                      "  case $state in\n    command)\n      names=(\n{}      )\n"
                      "      _describe command names\n{}      ;;\n    argument)\n"
                      "      case $line[1] in\n{}      esac\n      ;;\n  esac\n}}\n",
                      specs, names, takes_files ? "      _files\n" : "", cases);
  }
  std::string rest = fmt::format("    '*:operand:{}'", action({operands, {}}));
  if (operands == ValueKind::none) rest = "    ";
  if (operands == ValueKind::engine) rest = "    '*::engine:_normal'";
  const char* const separator = operands == ValueKind::engine ? "-S " : "";
  return text + fmt::format("  _arguments {}\\\n{}{}\n}}\n", separator, specs, rest);
}

}  // namespace

std::string zsh_completion(const std::vector<Page>& pages) {
  std::string text;
  for (const Page& page : pages) text += command_function(page.command);
  return text + "\n_weightpager \"$@\"\n";
}

}  // namespace weightpager::tools::manual
