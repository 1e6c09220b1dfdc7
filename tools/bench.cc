// `weightpager bench`: chooses the subcommand.
#include "tools/bench.h"

#include <fmt/format.h>

#include "tools/cli.h"

namespace weightpager::tools {
namespace {

Command bench_table() {
  return {.name = "weightpager bench",
          .purpose = "Memory for weights against delay.\n",
          .usage =
              "  weightpager bench pipelines NET.cfg NET.weights [OPTIONS]\n"
              "  weightpager bench simulate NET.cfg --kernels MS [OPTIONS]\n"
              "  weightpager bench blocks NET.cfg NET.weights [OPTIONS]\n"
              "  weightpager bench policies MODEL|TRACE [OPTIONS]\n"
              "  weightpager bench disk FILE [OPTIONS]\n",
          .subcommands = {{"pipelines", "a network in every pipeline, on this machine"},
                          {"simulate", "the same by equation, on disks that are not at hand"},
                          {"blocks", "what a byte and an operation cost here"},
                          {"policies", "what is best read ahead, kept and evicted, and the bound"},
                          {"disk", "measure a disk, for policies --disk"}},
          .examples =
              "  weightpager bench pipelines yolov4.cfg yolov4.weights\n"
              "  weightpager bench simulate yolov4.cfg --kernels 160.8\n"
              "  weightpager bench policies model.gguf --window 25%,50%\n"};
}

}  // namespace

int bench_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string word = words.empty() ? "" : words.front();
  if (word == "-h" || word == "--help") {
    print(stdout, help_text(bench_table()));
    return exit_success;
  }
  const std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (word == "pipelines") return bench_pipelines_command(rest);
  if (word == "simulate") return bench_simulate_command(rest);
  if (word == "blocks") return bench_blocks_command(rest);
  if (word == "policies") return bench_policies_command(rest);
  if (word == "disk") return bench_disk_command(rest);
  return misuse(
      {fmt::format("bench: expected pipelines, simulate, blocks, policies or disk, found {}",
                   word.empty() ? "nothing" : "'" + word + "'"),
       "`weightpager bench --help` tells what they do"});
}

}  // namespace weightpager::tools
