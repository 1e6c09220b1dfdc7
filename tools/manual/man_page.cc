#include "tools/manual/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

namespace weightpager::tools::manual {
namespace {

struct Section {
  std::string title;
  std::string body;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Text of a table. Its only markup are backquotes: `text to type` becomes bold.
std::string escaped(const std::string& text) {
  const std::string markup = "\\*_#[]|<>+-~.";
  std::string result;
  for (char letter : text) {
    if (letter == '`') {
      result += '*';
    } else {
      if (markup.find(letter) != std::string::npos) result += '\\';
      result += letter;
    }
  }
  return result;
}

std::string bold(const std::string& text) { return "*" + escaped(text) + "*"; }
std::string underlined(const std::string& text) { return "_" + escaped(text) + "_"; }

/// The text as it is written, in a block of its own. The block is indented anyway.
std::string literal(const std::string& text) {
  std::string result = "```\n";
  for (const std::string& line : lines_of(text)) {
    for (char letter : line.substr(line.starts_with("  ") ? 2 : 0)) {
      if (letter == '\\') result += '\\';
      result += letter;
    }
    result += '\n';
  }
  return result + "```\n";
}

/// A word of the usage: either a text to type, or a placeholder.
std::string usage_word(const std::string& word) {
  std::string inner = word;
  std::string before;
  std::string after;
  if (inner.starts_with('[')) before = "\\[", inner.erase(0, 1);
  for (const std::string end : {"]", "…", "..."}) {
    if (!inner.ends_with(end)) continue;
    inner.resize(inner.size() - end.size());
    after = escaped(end) + after;
  }
  if (inner.empty()) return before + after;
  const bool is_placeholder = std::isupper(static_cast<unsigned char>(inner.front()));
  return before + (is_placeholder ? underlined(inner) : bold(inner)) + after;
}

std::string usage_line(const std::string& line) {
  if (!line.starts_with("  weightpager")) return escaped(line.substr(line.find_first_not_of(' ')));
  // The text after a wide gap explains the command.
  const size_t gap = std::min(line.find("   ", 2), line.size());
  std::istringstream words(line.substr(0, gap));
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + usage_word(word);
  return result + escaped(line.substr(gap));
}

std::string synopsis(const std::string& usage) {
  std::string text;
  for (const std::string& line : lines_of(usage)) {
    text += (text.empty() ? "" : "++\n") + usage_line(line);
  }
  return text + "\n";
}

/// Whether it is a line "name     description" of a list within a description.
bool has_columns(const std::string& line) { return line.find("  ") != std::string::npos; }

/// Whether the line begins an entry, such as "seq: read, copy, compute" or "sync, async: …".
bool begins_entry(const std::string& line) {
  if (has_columns(line)) return true;
  const size_t colon = line.find(": ");
  for (size_t i = 0; i < std::min(colon, line.size()); ++i) {
    if (line[i] == ' ' && line[i - (i > 0)] != ',') return false;
  }
  return colon != std::string::npos;
}

std::string entry_line(const std::string& line) {
  if (!has_columns(line)) return escaped(line);
  const size_t gap = line.find("  ");
  return bold(line.substr(0, gap)) + " \\- " +
         escaped(line.substr(line.find_first_not_of(' ', gap)));
}

/// Joins the lines of a description. Entries of a list stay on lines of their own.
std::string description_text(const std::string& description) {
  std::string text;
  for (const std::string& line : lines_of(description)) {
    if (!text.empty()) text += begins_entry(line) ? "++\n" : " ";
    text += entry_line(line);
  }
  return text;
}

std::string option_entry(const Option& option) {
  std::string term = option.letter ? bold(fmt::format("-{}", option.letter)) + ", " : "";
  term += bold("--" + option.name);
  if (!option.value_name.empty()) term += " " + underlined(option.value_name);
  return fmt::format("{}\n\t{}\n\n", term, description_text(option.description));
}

std::string options_of(const Command& command) {
  std::string text;
  for (const Option& option : all_options(command)) text += option_entry(option);
  return text;
}

std::string commands_of(const Command& command) {
  std::string text;
  for (const Subcommand& subcommand : command.subcommands) {
    const std::string name = fmt::format("{} {}", command.name, subcommand.name);
    const std::string term =
        subcommand.describe ? bold(page_name(subcommand.describe())) + "(1)" : bold(name);
    text += fmt::format("{}\n\t{}\n\n", term, escaped(subcommand.description));
  }
  return text;
}

/// Lines "  TERM  meaning", and the lines below them that are indented further, become entries. All
/// other lines are text.
std::string entries(const std::string& body) {
  constexpr size_t indent = 2;
  std::string text;
  for (const std::string& line : lines_of(body)) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    const size_t gap = line.find("  ", begin);
    if (begin > indent && !text.empty()) {
      text += "\t" + escaped(line.substr(begin)) + "\n";
    } else if (gap == std::string::npos) {
      // This is a term whose meaning follows below, or a sentence.
      text += "\n" + escaped(line.substr(begin)) + "\n";
    } else {
      text += fmt::format("\n{}\n\t{}\n", bold(line.substr(begin, gap - begin)),
                          escaped(line.substr(line.find_first_not_of(' ', gap))));
    }
  }
  return text;
}

std::vector<Section> sections_of(const std::string& prose) {
  std::vector<Section> sections;
  for (const std::string& line : lines_of(prose)) {
    if (line.starts_with("# ")) {
      sections.push_back({line.substr(2), ""});
    } else if (!sections.empty()) {
      sections.back().body += line + "\n";
    }
  }
  return sections;
}

/// Takes the section of that title out of `sections`.
std::string take(std::vector<Section>& sections, const std::string& title) {
  for (Section& section : sections) {
    if (section.title == title) return std::exchange(section, {}).body;
  }
  return "";
}

/// The command above this one, and the commands below it.
std::string neighbours(const Page& page) {
  const std::string name = page_name(page.command);
  std::string text;
  const auto add = [&](const std::string& other) {
    text += (text.empty() ? "" : ", ") + bold(other) + "(1)";
  };
  if (const size_t dash = name.rfind('-'); dash != std::string::npos) add(name.substr(0, dash));
  for (const Subcommand& subcommand : page.command.subcommands) {
    if (subcommand.describe) add(page_name(subcommand.describe()));
  }
  return text;
}

}  // namespace

std::string man_page(const Page& page, const std::string& prose) {
  const Command& command = page.command;
  std::vector<Section> written = sections_of(prose);
  std::string text =
      fmt::format("{}(1) \"weightpager {}\" \"weightpager\"\n", page_name(command), WP_VERSION);
  const auto add = [&](const std::string& title, const std::string& from_table) {
    const std::string by_hand = take(written, title);
    if (from_table.empty() && by_hand.empty()) return;
    text += fmt::format("\n# {}\n\n{}\n{}", title, from_table, by_hand);
  };
  add("NAME", fmt::format("{} - {}\n", page_name(command), escaped(page.brief)));
  add("SYNOPSIS", synopsis(command.usage));
  add("DESCRIPTION", escaped(command.purpose));
  add("COMMANDS", commands_of(command));
  add("OPTIONS", options_of(command));
  if (command.other_form) {
    const Command other = command.other_form();
    add("OTHER FORM",
        escaped(other.purpose) + "\n" + synopsis(other.usage) + "\n" + options_of(other));
    add("EXAMPLES", literal(command.examples + other.examples));
  } else {
    add("EXAMPLES", command.examples.empty() ? "" : literal(command.examples));
  }
  add("EXIT STATUS", entries(command.exit_status));
  add("ENVIRONMENT", entries(command.environment));
  for (const Section& section : std::vector(written)) {
    if (!section.title.empty() && section.title != "SEE ALSO") add(section.title, "");
  }
  const std::string others = take(written, "SEE ALSO");
  add("SEE ALSO", neighbours(page) + (others.empty() ? "\n" : ",") + others);
  return text;
}

}  // namespace weightpager::tools::manual
