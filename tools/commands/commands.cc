// Finds the subcommand and hands over to it.
#include "tools/commands/commands.h"

#include <cstdio>

#include "tools/cli/version.h"
#include "tools/commands/bench/bench.h"
#include "tools/commands/ctl.h"
#include "tools/commands/doctor/doctor.h"
#include "tools/commands/hist.h"
#include "tools/commands/infer/infer.h"
#include "tools/commands/map.h"
#include "tools/commands/metrics.h"
#include "tools/commands/model/model.h"
#include "tools/commands/plan/plan.h"
#include "tools/commands/ps.h"
#include "tools/commands/reproduce/reproduce.h"
#include "tools/commands/run/run.h"
#include "tools/commands/serve/serve.h"
#include "tools/commands/stat.h"
#include "tools/commands/top/top.h"
#include "tools/commands/trace/trace.h"

namespace weightpager::tools {

Command weightpager_description() {
  Command command;
  command.name = "weightpager";
  command.purpose = "Runs neural networks whose weights are larger than the memory they may use.\n";
  command.usage = "  weightpager COMMAND [ARGUMENTS]\n";
  command.subcommands = {
      {"run", "run an engine with its model in a window of memory", run_description, run_command},
      {"serve", "serve a model, or several networks, from one window of memory", serve_description,
       serve_command},
      {"ps", "list processes that have a live pager", ps_description, ps_command},
      {"stat", "show what a live pager does, one row a second", stat_description, stat_command},
      {"top", "show a live pager on the whole screen", top_description, top_command},
      {"map", "show which bytes of its models a live pager has in memory", map_description,
       map_command},
      {"hist", "show how long a live pager's touches and reads took", hist_description,
       hist_command},
      {"ctl", "change a live pager's window, policy or pinned layers", ctl_description,
       ctl_command},
      {"metrics", "print a live pager's counters for Prometheus", metrics_description,
       metrics_command},
      {"infer", "run a Darknet network in a small part of its weights' memory", infer_description,
       infer_command},
      {"bench", "compare memory for weights with delay, measured or by equation", bench_description,
       bench_command},
      {"plan", "plan where memory goes: activations, convolutions, networks", plan_description,
       plan_command},
      {"reproduce", "make a paper's figures and tables again", reproduce_description,
       reproduce_command},
      {"trace", "record, show, convert and make traces of what engines touch", trace_description,
       trace_command},
      {"model", "show what is in a model's files, or make a synthetic model", model_description,
       model_command},
      {"doctor", "check this machine, and print a fix for each problem", doctor_description,
       doctor_command},
  };
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
      "  `weightpager run` ends as its engine does; see `weightpager run --help`\n";
  command.operands = Operands::none;
  return command;
}

int weightpager_command(const std::vector<std::string>& words) {
  const Command command = weightpager_description();
  if (words.empty() || words.front()[0] != '-') return run_subcommand(command, words);
  const auto parsed = parse_arguments(command, words);
  if (!parsed) return misuse(parsed.error());
  if (!parsed->has("version")) return run_subcommand(command, {"--help"});
  print(stdout, version_text());
  return exit_success;
}

}  // namespace weightpager::tools
