// How every subcommand reads its arguments and speaks to its user.
//
// A command is described once, in a table; parsing, `--help`, the suggestion for a misspelt flag,
// the man page and the shells' completion (tools/manual) all come from that table, so they cannot
// drift apart. Errors are two lines on stderr: what is wrong and what to do.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::tools {

inline constexpr int exit_success = 0;
inline constexpr int exit_failure = 1;
inline constexpr int exit_misuse = 2;

struct Option {
  /// The one-letter form, 0 if there is none.
  char letter = 0;
  std::string name;
  /// What stands for the value in the help ("SIZE"); empty for a flag, which takes none.
  std::string value_name;
  /// Lines of the help are broken where this has a line break.
  std::string description;
  /// The values, where they can be listed.
  std::vector<std::string> choices;
};

/// What stands behind the options.
enum class Operands { none, files, engine, pagers };

struct Command;

struct Subcommand {
  std::string name;
  std::string description;
  /// Its own table, and what carries it out with the words that follow its name. None where the
  /// command's own table and function are the subcommand's too (`trace show`).
  Command (*describe)() = nullptr;
  int (*run)(const std::vector<std::string>& words) = nullptr;
};

/// What there is to know about one command. Empty parts are left out of the help.
struct Command {
  std::string name;
  std::string purpose;
  std::string usage;
  std::vector<Subcommand> subcommands;
  std::vector<Option> options;
  std::string examples;
  std::string environment;
  std::string exit_status;
  Operands operands = Operands::files;
  /// The same command on operands of another kind (`serve NET.cfg`), if there is one.
  Command (*other_form)() = nullptr;
};

/// The arguments of one call, sorted into options and operands.
class Arguments {
 public:
  bool has(const std::string& option) const { return values_.count(option) > 0; }
  /// The last value given for `option`.
  std::optional<std::string> value(const std::string& option) const;
  /// All values given for `option`, in order.
  std::vector<std::string> values(const std::string& option) const;
  /// What is neither an option nor an option's value.
  const std::vector<std::string>& operands() const { return operands_; }

 private:
  friend Result<Arguments> parse_arguments(const Command&, const std::vector<std::string>&);
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> operands_;
};

/// The command's options and `--help`, which every command has.
std::vector<Option> all_options(const Command& command);

/// Sorts `arguments` (without the command's own name) by the command's table. `--help` is always
/// known. An unknown option fails with the nearest known one as hint.
Result<Arguments> parse_arguments(const Command& command,
                                  const std::vector<std::string>& arguments);

/// Index of the first argument that is neither an option of `command` nor an option's value;
/// arguments.size() if there is none.
size_t first_operand(const Command& command, const std::vector<std::string>& arguments);

/// Usage, commands, options, examples, environment, exit status.
std::string help_text(const Command& command);

/// "weightpager: error: …" and "hint: …" on stderr.
void print_error(const Error& error);

/// print_error, and the exit status that goes with it: of what failed, and of what was asked
/// wrongly.
int failure(const Error& error);
int misuse(const Error& error);

/// What every command begins with: help, and words that its table does not know. `act` does the
/// rest with the others, and returns the exit status.
int carry_out(const Command& command, const std::vector<std::string>& words,
              const std::function<int(const Arguments& arguments)>& act);

/// The same for a command whose arguments become options first; those that `read` refuses are
/// misuse.
template <typename Read, typename Act>
int carry_out(const Command& command, const std::vector<std::string>& words, Read read, Act act) {
  return carry_out(command, words, [&](const Arguments& arguments) {
    auto options = read(arguments);
    return options ? act(*std::move(options)) : misuse(options.error());
  });
}

/// Hands over to the subcommand that `words` begin with, or shows the help. Returns the exit
/// status.
int run_subcommand(const Command& command, const std::vector<std::string>& words);

/// Prints `text`; unlike fmt::print it does not throw when nobody reads the other end.
void print(std::FILE* stream, const std::string& text);

/// The candidate that `word` was probably meant to be, "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The words as one line for a POSIX shell, quoted only where that is needed.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace weightpager::tools
