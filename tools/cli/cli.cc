// Argument parsing on cxxopts, without two of its habits. cxxopts splits lists at commas and reads
// "1.5GiB" as the number 1.5; so every value is taken as the string that the user wrote. cxxopts
// throws at an unknown option; so unknown options are collected, and the nearest known one is
// named.
#include "tools/cli/cli.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cxxopts.hpp>
#include <numeric>

namespace weightpager::tools {
namespace {

constexpr size_t help_indent = 2;
constexpr size_t help_gap = 2;

cxxopts::Options cxxopts_table(const Command& command) {
  cxxopts::Options table(command.name);
  table.allow_unrecognised_options();
  for (const Option& option : all_options(command)) {
    std::string spelling = option.name;
    if (option.letter) spelling = fmt::format("{},{}", option.letter, option.name);
    if (option.value_name.empty()) {
      table.add_options()(spelling, "", cxxopts::value<bool>());
    } else {
      table.add_options()(spelling, "", cxxopts::value<std::string>());
    }
  }
  return table;
}

bool is_option(std::string_view argument) { return argument.size() > 1 && argument[0] == '-'; }

Error unknown_option(const Command& command, const std::string& argument) {
  std::vector<std::string> known;
  for (const Option& option : all_options(command)) known.push_back("--" + option.name);
  const std::string given = argument.substr(0, argument.find('='));
  const std::string meant = nearest(given, known);
  const std::string help = fmt::format("`{} --help` lists the options", command.name);
  return {fmt::format("unknown option {}", given),
          meant.empty() ? help : fmt::format("did you mean {}? {}", meant, help)};
}

/// The option that `argument` spells (`--name`, `--name=value`, `-n`, `-nVALUE`), or none.
std::optional<Option> spelt_option(const Command& command, std::string_view argument) {
  const std::string_view spelling = argument.substr(0, argument.find('='));
  for (const Option& option : all_options(command)) {
    if (spelling == "--" + option.name) return option;
    const bool is_short = argument.size() > 1 && argument[0] == '-' && argument[1] != '-';
    if (is_short && option.letter && argument[1] == option.letter) return option;
  }
  return std::nullopt;
}

std::string option_column(const Option& option) {
  std::string column = option.letter ? fmt::format("-{}, ", option.letter) : "    ";
  column += "--" + option.name;
  if (!option.value_name.empty()) column += " " + option.value_name;
  return column;
}

struct HelpRow {
  std::string left;
  std::string right;
};

/// Two aligned columns; after a line break the right column continues below itself.
std::string help_rows(const std::vector<HelpRow>& rows) {
  size_t width = 0;
  for (const HelpRow& row : rows) width = std::max(width, row.left.size());
  const std::string continuation = "\n" + std::string(help_indent + width + help_gap, ' ');
  std::string text;
  for (const HelpRow& row : rows) {
    std::string right = row.right;
    for (size_t at = right.find('\n'); at != std::string::npos;
         at = right.find('\n', at + continuation.size())) {
      right.replace(at, 1, continuation);
    }
    text += fmt::format("{:{}}{:<{}}{}\n", "", help_indent, row.left, width + help_gap, right);
  }
  return text;
}

void add_section(std::string& text, std::string_view title, std::string_view body) {
  if (body.empty()) return;
  if (!text.empty()) text += '\n';
  text += fmt::format("{}:\n{}", title, body);
}

/// Levenshtein's distance: insertions, deletions and substitutions between two words.
size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t substituted = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string shell_word(const std::string& word) {
  const std::string plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

}  // namespace

std::vector<Option> all_options(const Command& command) {
  std::vector<Option> options = command.options;
  options.push_back({'h', "help", "", "show this help"});
  return options;
}

std::optional<std::string> Arguments::value(const std::string& option) const {
  const auto found = values_.find(option);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Arguments::values(const std::string& option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Result<Arguments> parse_arguments(const Command& command,
                                  const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {command.name.c_str()};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  Arguments sorted;
  try {
    const auto parsed = cxxopts_table(command).parse(static_cast<int>(argv.size()), argv.data());
    for (const auto& given : parsed.arguments()) {
      const auto option = spelt_option(command, "--" + given.key());
      if (option && option->value_name.empty() && given.value() != "true") {
        return fail(fmt::format("--{} takes no value", given.key()));
      }
      if (option && !option->value_name.empty() && given.value().empty()) {
        return fail(fmt::format("--{} '': expected {}", given.key(), option->value_name),
                    fmt::format("`{} --help` lists the options", command.name));
      }
      sorted.values_[given.key()].push_back(given.value());
    }
    sorted.operands_ = parsed.unmatched();
  } catch (const cxxopts::exceptions::exception& problem) {
    return fail(problem.what(), fmt::format("`{} --help` lists the options", command.name));
  }
  const auto unknown = std::find_if(sorted.operands_.begin(), sorted.operands_.end(), is_option);
  if (unknown != sorted.operands_.end()) {
    return tl::make_unexpected(unknown_option(command, *unknown));
  }
  return sorted;
}

size_t first_operand(const Command& command, const std::vector<std::string>& arguments) {
  size_t index = 0;
  while (index < arguments.size() && is_option(arguments[index])) {
    const std::string& argument = arguments[index];
    const auto option = spelt_option(command, argument);
    const bool value_attached =
        argument[1] == '-' ? argument.find('=') != std::string::npos : argument.size() > 2;
    const bool value_follows = option && !option->value_name.empty() && !value_attached;
    index += value_follows ? 2 : 1;
  }
  return std::min(index, arguments.size());
}

std::string help_text(const Command& command) {
  std::vector<HelpRow> subcommands;
  for (const Subcommand& subcommand : command.subcommands) {
    subcommands.push_back({subcommand.name, subcommand.description});
  }
  std::vector<HelpRow> options;
  for (const Option& option : all_options(command)) {
    options.push_back({option_column(option), option.description});
  }
  std::string text = command.purpose;
  add_section(text, "Usage", command.usage);
  add_section(text, "Commands", help_rows(subcommands));
  add_section(text, "Options", help_rows(options));
  add_section(text, "Examples", command.examples);
  add_section(text, "Environment", command.environment);
  add_section(text, "Exit status", command.exit_status);
  return text;
}

int carry_out(const Command& command, const std::vector<std::string>& words,
              const std::function<int(const Arguments& arguments)>& act) {
  const auto arguments = parse_arguments(command, words);
  if (!arguments) return misuse(arguments.error());
  if (!arguments->has("help")) return act(*arguments);
  print(stdout, help_text(command));
  return exit_success;
}

int run_subcommand(const Command& command, const std::vector<std::string>& words) {
  const std::string word = words.empty() ? "" : words.front();
  if (word == "-h" || word == "--help") {
    print(stdout, help_text(command));
    return exit_success;
  }
  std::vector<std::string> known;
  for (const Subcommand& subcommand : command.subcommands) {
    if (word == subcommand.name) return subcommand.run({words.begin() + 1, words.end()});
    known.push_back(subcommand.name);
  }
  const std::string help = fmt::format("`{} --help` lists the commands", command.name);
  if (word.empty()) return misuse({fmt::format("no command given after {}", command.name), help});
  const std::string meant = nearest(word, known);
  return misuse({fmt::format("{} has no command {}", command.name, word),
                 meant.empty() ? help : fmt::format("did you mean {}? {}", meant, help)});
}

void print(std::FILE* stream, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

void print_error(const Error& error) {
  print(stderr, fmt::format("weightpager: error: {}\n", error.message));
  if (!error.hint.empty()) print(stderr, fmt::format("hint: {}\n", error.hint));
}

int failure(const Error& error) {
  print_error(error);
  return exit_failure;
}

int misuse(const Error& error) {
  print_error(error);
  return exit_misuse;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t distance_max = 2;
  std::string best;
  size_t best_distance = distance_max + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_word(word);
  }
  return line;
}

}  // namespace weightpager::tools
