// Completion for fish: one `complete` line for each command and option, with the condition under
// which it holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/manual/completion.h"

namespace weightpager::tools::manual {
namespace {

/// Quotes a word for fish.
std::string fish_word(const std::string& text) {
  std::string result = "'";
  for (char letter : text) {
    if (letter == '\'' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "'";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string value_part(const Values& values) {
  const std::string choices = fmt::format("{}", fmt::join(values.choices, " "));
  switch (values.kind) {
    case ValueKind::none:
      return "";
    case ValueKind::text:
      return " -x";
    case ValueKind::file:
      return " -r -F";
    case ValueKind::directory:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::word:
      return fmt::format(" -x -a {}", fish_word(choices));
    case ValueKind::words:
      return fmt::format(" -x -a '(__fish_append , {})'", choices);
    case ValueKind::pager:
      return " -x -a '(__weightpager_pagers)'";
    case ValueKind::engine:
      return " -x -a '(__weightpager_engine)'";
  }
  return "";
}

std::string command_lines(const Command& command) {
  const std::string at =
      fmt::format("complete -c weightpager -n {}", fish_word("__weightpager_at " + command.name));
  std::string text = "\n";
  for (const Subcommand& it : command.subcommands) {
    text += fmt::format("{} -a {} -d {}\n", at, it.name, fish_word(it.description));
  }
  for (const Option& option : completed_options(command)) {
    const std::string letter = option.letter ? fmt::format(" -s {}", option.letter) : "";
    text += fmt::format("{}{} -l {}{} -d {}\n", at, letter, option.name,
                        value_part(values_of(option)), fish_word(first_line(option.description)));
  }
  const ValueKind operands = operands_of(command);
  if (operands == ValueKind::file) text += at + " -F\n";
  if (operands == ValueKind::pager) text += at + " -a '(__weightpager_pagers)'\n";
  if (operands == ValueKind::engine) {
    text +=
        "complete -c weightpager -n __weightpager_behind_separator -x -a "
        "'(__weightpager_engine)'\n";
  }
  return text;
}

}  // namespace

std::string fish_completion(const std::vector<Page>& pages) {
  std::vector<std::string> names;
  for (const Page& page : pages) names.push_back(fish_word(page.command.name));
  std::string text = fmt::format("\nset -g __weightpager_commands {}\n", fmt::join(names, " "));
  for (const Page& page : pages) text += command_lines(page.command);
  return text;
}

}  // namespace weightpager::tools::manual
