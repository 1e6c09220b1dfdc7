// The common parts of `ps`, `stat`, `hist`, `ctl` and `trace record`: they name a process on the
// command line, and treat its end alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/control/client.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// The exit status if the process has ended, or does not exist.
inline constexpr int exit_process_ended = 3;
/// For Command::exit_status.
extern const char* const live_exit_status;

Result<pid_t> parse_process(const std::string& text);

/// Calls print_error and returns the exit status that goes with it.
int live_failure(const Error& error);

/// The error for an answer that this version of weightpager does not expect.
Error wrong_answer(const std::string& problem);

/// A request that has only a name.
control::Client::Json request_of(const char* name);

/// Parses an index, which counts from 0.
Result<uint32_t> parse_index(const std::string& text, const std::string& option);

/// The beginning and the end of every such command: help, options that the command does not know,
/// and answers that it does not expect. `act` does the work and returns the exit status.
int run_live_command(const Command& command, const std::vector<std::string>& words,
                     const std::function<int(const Arguments& arguments)>& act);

/// Checks by its `hello` that the process has a pager of its own. If not, the error's hint says
/// which command or process shows what was asked for.
Status expect_pager(const control::Client::Json& hello);

/// Connects to the process. If that fails, the error has been printed and the result is the exit
/// status.
tl::expected<control::Client, int> connect_to(const std::string& process_id);
/// Connects to the process that is the only operand.
tl::expected<control::Client, int> connect_to_operand(const Command& command,
                                                      const Arguments& arguments);

}  // namespace weightpager::tools
