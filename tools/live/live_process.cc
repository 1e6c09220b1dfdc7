#include "tools/live/live_process.h"

#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "tools/arguments/number_argument.h"

namespace weightpager::tools {

const char* const live_exit_status =
    "  0  success\n"
    "  1  the process cannot be reached, or it refused\n"
    "  2  called wrongly\n"
    "  3  the process has ended\n";

Result<pid_t> parse_process(const std::string& text) {
  pid_t process_id = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped_at, problem] = std::from_chars(text.data(), end, process_id);
  if (problem == std::errc{} && stopped_at == end && process_id > 0) return process_id;
  return fail(fmt::format("'{}' is no process id", text), "`weightpager ps` lists the processes");
}

int live_failure(const Error& error) {
  print_error(error);
  return error.error_number == control::process_ended ? exit_process_ended : exit_failure;
}

Error wrong_answer(const std::string& problem) {
  return {fmt::format("the process's answer is not as expected: {}", problem),
          "does it run another version of weightpager? use that version's command", 0};
}

control::Client::Json request_of(const char* name) {
  return {{"version", control::protocol_version}, {"request", name}};
}

Result<uint32_t> parse_index(const std::string& text, const std::string& option) {
  const auto index = parse_whole(text, option, 0, UINT32_MAX);
  if (!index) return tl::make_unexpected(index.error());
  return static_cast<uint32_t>(*index);
}

int run_live_command(const Command& command, const std::vector<std::string>& words,
                     const std::function<int(const Arguments& arguments)>& act) try {
  return carry_out(command, words, act);
} catch (const control::Client::Json::exception& problem) {
  return failure(wrong_answer(problem.what()));
}

Status expect_pager(const control::Client::Json& hello) {
  const auto kind = hello.at("kind").get<std::string>();
  const auto process_id = hello.at("process_id").get<int64_t>();
  if (kind == "guest") {
    const auto server = hello.at("server_process_id").get<int64_t>();
    return fail(fmt::format("process {} is attached to server {}, which has the window", process_id,
                            server),
                fmt::format("give {} as the process id", server));
  }
  if (kind == "networks" || kind == "inference") {
    return fail(fmt::format("process {} runs networks itself, without a pager", process_id),
                fmt::format("`weightpager stat {}` shows them", process_id));
  }
  return {};
}

tl::expected<control::Client, int> connect_to(const std::string& text) {
  const auto process_id = parse_process(text);
  if (!process_id) return tl::make_unexpected(misuse(process_id.error()));
  auto client = control::Client::connect(*process_id);
  if (!client) return tl::make_unexpected(live_failure(client.error()));
  return std::move(*client);
}

tl::expected<control::Client, int> connect_to_operand(const Command& command,
                                                      const Arguments& arguments) {
  if (arguments.operands().size() != 1) {
    return tl::make_unexpected(misuse(
        {"expected one process id", fmt::format("`{} --help` shows the usage", command.name)}));
  }
  return connect_to(arguments.operands().front());
}

}  // namespace weightpager::tools
