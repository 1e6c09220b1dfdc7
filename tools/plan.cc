// `weightpager plan`: chooses the subcommand.
#include "tools/plan.h"

namespace weightpager::tools {

Command plan_description() {
  return {.name = "weightpager plan",
          .purpose = "Plans the memory of networks before they run.\n",
          .usage =
              "  weightpager plan activations NET.cfg|RECORDS.json [OPTIONS]\n"
              "  weightpager plan primitives NET.cfg [OPTIONS]\n"
              "  weightpager plan budgets NET.cfg… --budget SIZE [OPTIONS]\n",
          .subcommands = {{"activations",
                           "where activations lie, and how near that is to the least possible",
                           plan_activations_description, plan_activations_command},
                          {"primitives", "how to compute each convolution: time against memory",
                           plan_primitives_description, plan_primitives_command},
                          {"budgets", "one memory budget for the weights of several networks",
                           plan_budgets_description, plan_budgets_command}},
          .examples =
              "  weightpager plan activations yolov4.cfg\n"
              "  weightpager plan primitives yolov3.cfg --budget 400MiB\n"
              "  weightpager plan budgets yolov3.cfg vgg19.cfg --budget 500MiB\n"};
}

int plan_command(const std::vector<std::string>& words) {
  return run_subcommand(plan_description(), words);
}

}  // namespace weightpager::tools
