#include "tools/manual/pages.h"

#include <algorithm>

#include "tools/commands/commands.h"

namespace weightpager::tools::manual {
namespace {

void add_page(std::vector<Page>& pages, const Command& command, const std::string& brief) {
  pages.push_back({command, brief});
  for (const Subcommand& subcommand : command.subcommands) {
    if (subcommand.describe) add_page(pages, subcommand.describe(), subcommand.description);
  }
}

/// Completion offers only these sizes; they show how sizes are written.
const std::vector<std::string> sizes = {"512MiB", "1GiB", "2GiB", "4GiB", "8GiB"};

}  // namespace

std::vector<Page> all_pages() {
  std::vector<Page> pages;
  add_page(pages, weightpager_description(), "neural networks larger than the memory they may use");
  return pages;
}

std::string page_name(const Command& command) {
  std::string name = command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

Values values_of(const Option& option) {
  const std::string& name = option.value_name;
  if (name.empty()) return {};
  const bool is_list = name.ends_with(",…");
  const ValueKind kind = is_list ? ValueKind::words : ValueKind::word;
  if (!option.choices.empty()) return {kind, option.choices};
  if (name == "SIZE" || name == "SIZE,…") return {kind, sizes};
  if (name == "FILE") return {ValueKind::file, {}};
  if (name == "DIR") return {ValueKind::directory, {}};
  return {ValueKind::text, {}};
}

bool takes_words_itself(const Command& command) {
  return std::any_of(command.subcommands.begin(), command.subcommands.end(),
                     [](const Subcommand& it) { return !it.describe; });
}

ValueKind operands_of(const Command& command) {
  switch (command.operands) {
    case Operands::none:
      return ValueKind::none;
    case Operands::files:
      return ValueKind::file;
    case Operands::engine:
      return ValueKind::engine;
    case Operands::pagers:
      return ValueKind::pager;
  }
  return ValueKind::none;
}

std::vector<Option> completed_options(const Command& command) {
  std::vector<Option> options = all_options(command);
  if (!command.other_form) return options;
  for (const Option& option : all_options(command.other_form())) {
    const bool is_there = std::any_of(options.begin(), options.end(),
                                      [&](const Option& it) { return it.name == option.name; });
    if (!is_there) options.push_back(option);
  }
  return options;
}

}  // namespace weightpager::tools::manual
