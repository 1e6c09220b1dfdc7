#include "tools/commands/ctl.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "pager/base/units.h"
#include "tools/cli/cli.h"
#include "tools/live/live_process.h"

namespace weightpager::tools {
namespace {

using Json = control::Client::Json;

}  // namespace

Command ctl_description() {
  return {
      .name = "weightpager ctl",
      .purpose = "Changes a live pager, and prints the old and the new value.\n",
      .usage =
          "  weightpager ctl PID set window=SIZE\n"
          "  weightpager ctl PID set policy=NAME\n"
          "  weightpager ctl PID set pin=LAYERS\n"
          "  weightpager ctl PID set budget=SIZE\n"
          "  weightpager ctl PID evict [LAYERS]\n"
          "  weightpager ctl PID drop\n",
      .options = {{0, "model", "N", "the number of the file that LAYERS belong to (0)"},
                  {0, "json", "", "print the process's answer as it is"}},
      .examples =
          "  weightpager ctl 4711 set window=6GiB\n"
          "  weightpager ctl 4711 set pin=layers:0-3,31   keep these layers, if there is room\n"
          "  weightpager ctl 4711 set pin=none            leave the choice to the policy\n"
          "  weightpager ctl 4711 evict layers:0-3        take these layers out of memory\n"
          "  weightpager ctl 4711 drop                    take out all that is not pinned\n"
          "`weightpager map PID` numbers the layers; budget is for `weightpager serve NET.cfg…`\n",
      .exit_status = live_exit_status,
      .operands = Operands::pagers};
}

namespace {

/// `set KEY=VALUE`, `evict [LAYERS]` or `drop`.
Result<Json> read_request(const std::vector<std::string>& words) {
  Json request = request_of("set");
  if (words.size() == 2 && words[0] == "set") {
    const size_t equals = words[1].find('=');
    if (equals != std::string::npos && equals > 0) {
      request[words[1].substr(0, equals)] = words[1].substr(equals + 1);
      return request;
    }
    return fail(fmt::format("set {}: expected KEY=VALUE", words[1]), "as set window=6GiB");
  }
  if ((words.size() == 1 || words.size() == 2) && words[0] == "evict") {
    request["evict"] = words.size() == 2 ? words[1] : "all";
    return request;
  }
  if (words.size() == 1 && words[0] == "drop") {
    request["drop"] = "unpinned";
    return request;
  }
  return fail("expected set KEY=VALUE, evict or drop", "`weightpager ctl --help` explains them");
}

std::string shown(const std::string& what, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return what.ends_with("_bytes") ? format_size(value.get<uint64_t>()) : value.dump();
}

void print_change(const Json& answer) {
  const auto what = answer.at("what").get<std::string>();
  fmt::print("{}: {} -> {}\n", what.substr(0, what.rfind("_bytes")), shown(what, answer.at("old")),
             shown(what, answer.at("new")));
  if (answer.value("wanted_bytes", uint64_t{0}) > 0) {
    fmt::print("  there is room for {} of {}\n", shown("_bytes", answer.at("pinned_bytes")),
               shown("_bytes", answer.at("wanted_bytes")));
  }
}

}  // namespace

int ctl_command(const std::vector<std::string>& words) {
  return run_live_command(ctl_description(), words, [](const Arguments& arguments) -> int {
    const std::vector<std::string>& operands = arguments.operands();
    if (operands.empty()) return misuse({"no process to change", "`weightpager ps` lists them"});
    auto request = read_request({operands.begin() + 1, operands.end()});
    if (!request) return misuse(request.error());
    if (const auto text = arguments.value("model")) {
      const auto model = parse_index(*text, "--model");
      if (!model) return misuse(model.error());
      (*request)["model"] = *model;
    }
    auto client = connect_to(operands.front());
    if (!client) return client.error();
    const auto answer = client->ask(*request);
    if (!answer) return live_failure(answer.error());
    if (arguments.has("json")) {
      print(stdout, answer->dump() + "\n");
    } else {
      print_change(*answer);
    }
    return exit_success;
  });
}

}  // namespace weightpager::tools
