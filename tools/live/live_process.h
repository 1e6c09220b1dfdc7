// What `ps`, `stat`, `hist`, `ctl` and `trace record` have in common: a process on the command
// line, and what it means when that process ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/control/client.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// The process ended, or was not there.
inline constexpr int exit_process_ended = 3;
/// For Command::exit_status.
extern const char* const live_exit_status;

Result<pid_t> parse_process(const std::string& text);

/// print_error, and the exit status that goes with it.
int live_failure(const Error& error);

/// A process whose answers are not what this version of weightpager expects.
Error wrong_answer(const std::string& problem);

/// A request without anything but its name.
control::Client::Json request_of(const char* name);

/// From 0.
Result<uint32_t> parse_index(const std::string& text, const std::string& option);

/// What every such command begins and ends with: help, words that it does not know, and answers
/// that are not what it expects. `act` does the rest, and returns the exit status.
int run_live_command(const Command& command, const std::vector<std::string>& words,
                     const std::function<int(const Arguments& arguments)>& act);

/// Whether the process has a pager of its own, by its `hello`. Fails saying who else can tell.
Status expect_pager(const control::Client::Json& hello);

/// Connects to the process. What went wrong has been told already: the error is the exit status.
tl::expected<control::Client, int> connect_to(const std::string& process_id);
/// To the one that is the only operand.
tl::expected<control::Client, int> connect_to_operand(const Command& command,
                                                      const Arguments& arguments);

}  // namespace weightpager::tools
