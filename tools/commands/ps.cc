#include "tools/commands/ps.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/cli/cli.h"
#include "tools/live/live_process.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using Json = control::Client::Json;

constexpr size_t ps_command_columns = 16;

}  // namespace

Command ps_description() {
  return {.name = "weightpager ps",
          .purpose =
              "Lists your processes that page weights, by kind: pager (an engine's), library,\n"
              "server and its guests, networks, inference.\n",
          .usage = "  weightpager ps [--json]\n",
          .options = {{0, "json", "", "print one JSON object for each process"}},
          .examples =
              "  weightpager run --window 1GiB -- llama-cli -m model.gguf &\n"
              "  weightpager ps\n",
          .environment = "  XDG_RUNTIME_DIR       where sockets are, in weightpager/\n",
          .exit_status =
              "  0  success, even if there is no such process\n"
              "  2  called wrongly\n",
          .operands = Operands::none};
}

namespace {

/// The models that are served, as one word for a table.
std::string models_of(const Json& hello) {
  const Json& models = hello.at("models");
  if (models.empty()) return "-";
  const std::string name =
      std::filesystem::path(models[0].at("name").get<std::string>()).filename();
  const auto more = hello.at("models_total").get<uint64_t>() - 1;
  return more == 0 ? name : fmt::format("{} +{}", name, more);
}

/// The size of the window. A guest uses the window of its server.
std::string window_of(const Json& hello) {
  if (hello.contains("server_process_id")) return "-";
  return fmt::format("{:.0f}", mebibytes(hello.at("window_bytes").get<uint64_t>()));
}

std::string policy_of(const Json& hello) {
  if (hello.contains("server_process_id")) {
    return fmt::format("of {}", hello.at("server_process_id").get<int64_t>());
  }
  const auto policy = hello.at("policy").get<std::string>();
  return policy.empty() ? "-" : policy;
}

/// Asks all processes. Those that end meanwhile are left out.
std::vector<Json> ask_all() {
  std::vector<Json> found;
  for (const pid_t process_id : control::find_processes()) {
    auto client = control::Client::connect(process_id);
    if (!client) continue;
    auto hello = client->ask(request_of("hello"));
    if (!hello && hello.error().error_number == control::process_ended) continue;
    if (hello) {
      found.push_back(std::move(*hello));
    } else {
      print_error(hello.error());
    }
  }
  return found;
}

}  // namespace

int ps_command(const std::vector<std::string>& words) {
  return run_live_command(ps_description(), words, [](const Arguments& arguments) -> int {
    if (!arguments.operands().empty()) {
      return misuse({"ps takes no operands", "`weightpager stat PID` shows one process"});
    }
    const std::vector<Json> found = ask_all();
    if (arguments.has("json")) {
      for (const Json& hello : found) print(stdout, hello.dump() + "\n");
      return exit_success;
    }
    fmt::print("{:>8} {:<{}} {:<9} {:>10} {:<12} {}\n", "pid", "command", ps_command_columns,
               "kind", "window MiB", "policy", "model");
    for (const Json& hello : found) {
      fmt::print("{:>8} {:<{}} {:<9} {:>10} {:<12} {}\n", hello.at("process_id").get<int64_t>(),
                 hello.at("command").get<std::string>(), ps_command_columns,
                 hello.at("kind").get<std::string>(), window_of(hello), policy_of(hello),
                 models_of(hello));
    }
    return exit_success;
  });
}

}  // namespace weightpager::tools
