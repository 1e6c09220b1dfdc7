// The weightpager command: finds the subcommand and hands over to it.
#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tools/bench.h"
#include "tools/cli.h"
#include "tools/ctl.h"
#include "tools/doctor.h"
#include "tools/hist.h"
#include "tools/infer.h"
#include "tools/model.h"
#include "tools/plan.h"
#include "tools/ps.h"
#include "tools/run.h"
#include "tools/serve.h"
#include "tools/stat.h"
#include "tools/trace.h"
#include "tools/version.h"

namespace weightpager::tools {
namespace {

struct Entry {
  const char* name;
  const char* description;
  int (*command)(int argc, char** argv);
};

constexpr Entry entries[] = {
    {"run", "run an engine with its model in a window of memory", run_command},
    {"serve", "serve a model to several engines, or several networks, in one window",
     serve_command},
    {"ps", "list processes that have a live pager", ps_command},
    {"stat", "what a live pager does, a row a second", stat_command},
    {"hist", "how long its touches and reads took", hist_command},
    {"ctl", "change its window, its policy, what is pinned", ctl_command},
    {"infer", "run a Darknet network with a sliver of its weights in memory", infer_command},
    {"bench", "memory for weights against delay, measured or by equation", bench_command},
    {"plan", "where memory goes: activations, convolutions, several networks", plan_command},
    {"trace", "what engines touch: show, convert and make traces", trace_command},
    {"model", "show what is in a model's files, or make a synthetic model", model_command},
    {"doctor", "try what a run needs of this machine, and say what to mend", doctor_command},
};

Command description() {
  Command command;
  command.name = "weightpager";
  command.purpose = "Runs neural networks whose weights are larger than the memory they may use.\n";
  command.usage = "  weightpager COMMAND [ARGUMENTS]\n";
  for (const Entry& entry : entries) {
    command.subcommands.push_back({entry.name, entry.description});
  }
  command.options = {{0, "version", "", "show version, commit and what is compiled in"}};
  command.examples =
      "  weightpager run --window 1GiB -- llama-cli -m model.gguf -p Hello\n"
      "  weightpager model show model.gguf\n"
      "  weightpager doctor model.gguf\n"
      "  weightpager run --help\n";
  command.environment = "  see `weightpager run --help`\n";
  command.exit_status =
      "  0  success\n"
      "  1  the command failed\n"
      "  2  it was called wrongly\n"
      "  `weightpager run` ends as its engine does, and has its own for failures\n";
  return command;
}

int unknown_command(const std::string& name) {
  std::vector<std::string> known;
  for (const Entry& entry : entries) known.emplace_back(entry.name);
  const std::string meant = nearest(name, known);
  const std::string help = "`weightpager --help` lists the commands";
  return misuse({fmt::format("unknown command {}", name),
                 meant.empty() ? help : fmt::format("did you mean {}? {}", meant, help)});
}

/// Called without a command: `weightpager --help` and the like.
int options_only(const std::vector<std::string>& arguments) {
  const Command command = description();
  const auto parsed = parse_arguments(command, arguments);
  if (!parsed) return misuse(parsed.error());
  if (parsed->has("help")) {
    print(stdout, help_text(command));
    return exit_success;
  }
  if (parsed->has("version")) {
    print(stdout, version_text());
    return exit_success;
  }
  return misuse({"no command given", "`weightpager --help` lists the commands"});
}

int run_main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name.empty() || name[0] == '-') return options_only({argv + (argc > 0), argv + argc});
  for (const Entry& entry : entries) {
    if (name == entry.name) return entry.command(argc - 1, argv + 1);
  }
  return unknown_command(name);
}

}  // namespace
}  // namespace weightpager::tools

int main(int argc, char** argv) { return weightpager::tools::run_main(argc, argv); }
