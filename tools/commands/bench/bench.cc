// `weightpager bench`: chooses the subcommand.
#include "tools/commands/bench/bench.h"

namespace weightpager::tools {

Command bench_description() {
  return {
      .name = "weightpager bench",
      .purpose = "Compares memory for weights with delay.\n",
      .usage =
          "  weightpager bench pipelines NET.cfg NET.weights [OPTIONS]\n"
          "  weightpager bench simulate NET.cfg --kernels MS [OPTIONS]\n"
          "  weightpager bench blocks NET.cfg NET.weights [OPTIONS]\n"
          "  weightpager bench policies MODEL|TRACE [OPTIONS]\n"
          "  weightpager bench disk FILE [OPTIONS]\n",
      .subcommands = {{"pipelines", "run a network in every pipeline on this machine",
                       bench_pipelines_description, bench_pipelines_command},
                      {"simulate", "compute the same by equations, for disks that are not at hand",
                       bench_simulate_description, bench_simulate_command},
                      {"blocks", "measure the cost of a byte and of an operation here",
                       bench_blocks_description, bench_blocks_command},
                      {"policies", "compare what to read ahead, keep and evict, and the bound",
                       bench_policies_description, bench_policies_command},
                      {"disk", "measure a disk, for policies --disk", bench_disk_description,
                       bench_disk_command}},
      .examples =
          "  weightpager bench pipelines yolov4.cfg yolov4.weights\n"
          "  weightpager bench simulate yolov4.cfg --kernels 160.8\n"
          "  weightpager bench policies model.gguf --window 25%,50%\n",
      .operands = Operands::none};
}

int bench_command(const std::vector<std::string>& words) {
  return run_subcommand(bench_description(), words);
}

}  // namespace weightpager::tools
