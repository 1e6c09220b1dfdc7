// How every subcommand reads its arguments and speaks to its user.
//
// A command is described once, in a table. Parsing, `--help`, the suggestion for a misspelt flag,
// the man page and the shells' completion (tools/manual) all come from that table, so they cannot
// contradict each other. Errors are two lines on stderr: what is wrong and what to do.
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
  /// The one-letter form; 0 if there is none.
  char letter = 0;
  std::string name;
  /// The word for the value in the help ("SIZE"); empty for a flag, which takes no value.
  std::string value_name;
  /// The help breaks its lines where this has a line break.
  std::string description;
  /// All possible values, if they can be listed.
  std::vector<std::string> choices;
};

/// The kind of operands that follow the options.
enum class Operands { none, files, engine, pagers };

struct Command;

struct Subcommand {
  std::string name;
  std::string description;
  /// The subcommand's own table, and the function that carries it out with the words that follow
  /// its name. Both are nullptr if the subcommand shares the command's table and function (`trace
  /// show`).
  Command (*describe)() = nullptr;
  int (*run)(const std::vector<std::string>& words) = nullptr;
};

/// The table of one command. Empty parts are left out of the help.
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
  /// The arguments that are neither an option nor an option's value.
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

/// The index of the first argument that is neither an option of `command` nor an option's value;
/// arguments.size() if there is none.
size_t first_operand(const Command& command, const std::vector<std::string>& arguments);

/// The command's help: usage, commands, options, examples, environment, exit status.
std::string help_text(const Command& command);

/// Prints "weightpager: error: …" and "hint: …" on stderr.
void print_error(const Error& error);

/// Both call print_error and return the exit status that goes with it: failure() for work that
/// failed, misuse() for a command that was called wrongly.
int failure(const Error& error);
int misuse(const Error& error);

/// The beginning of every command: shows the help if it is asked for, and refuses options that the
/// command's table does not know. Otherwise `act` does the work and returns the exit status.
int carry_out(const Command& command, const std::vector<std::string>& words,
              const std::function<int(const Arguments& arguments)>& act);

/// The same for a command that turns its arguments into a struct first. If `read` refuses them, the
/// command was called wrongly.
template <typename Read, typename Act>
int carry_out(const Command& command, const std::vector<std::string>& words, Read read, Act act) {
  return carry_out(command, words, [&](const Arguments& arguments) {
    auto options = read(arguments);
    return options ? act(*std::move(options)) : misuse(options.error());
  });
}

/// Runs the subcommand that `words` begin with, or shows the help. Returns the exit status.
int run_subcommand(const Command& command, const std::vector<std::string>& words);

/// Prints `text`; unlike fmt::print it does not throw when nobody reads the other end.
void print(std::FILE* stream, const std::string& text);

/// The candidate that `word` was probably meant to be; "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The words as one line for a POSIX shell, quoted only where that is needed.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace weightpager::tools
