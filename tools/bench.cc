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
              "  weightpager bench simulate NET.cfg --kernels MS [OPTIONS]\n",
          .subcommands = {{"pipelines", "a network in every pipeline, on this machine"},
                          {"simulate", "the same by equation, on disks that are not at hand"}},
          .examples =
              "  weightpager bench pipelines yolov4.cfg yolov4.weights\n"
              "  weightpager bench simulate yolov4.cfg --kernels 160.8\n"};
}

}  // namespace

int bench_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string word = words.empty() ? "" : words.front();
  if (word == "-h" || word == "--help") {
    print(stdout, help_text(bench_table()));
    return exit_success;
  }
  if (word == "pipelines") return bench_pipelines_command({words.begin() + 1, words.end()});
  if (word == "simulate") return bench_simulate_command({words.begin() + 1, words.end()});
  print_error({word.empty()
                   ? "bench: expected pipelines or simulate, found nothing"
                   : fmt::format("bench: expected pipelines or simulate, found '{}'", word),
               "`weightpager bench --help` tells what they do"});
  return exit_misuse;
}

}  // namespace weightpager::tools
