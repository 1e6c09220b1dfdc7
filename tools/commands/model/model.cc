// `weightpager model`: chooses the subcommand.
#include "tools/commands/model/model.h"

namespace weightpager::tools {

Command model_description() {
  return {.name = "weightpager model",
          .purpose = "Shows models and makes synthetic ones.\n",
          .usage =
              "  weightpager model show FILE\n"
              "  weightpager model make --size SIZE -o FILE\n"
              "  weightpager model make --net NAME -o DIR\n"
              "  weightpager model pack NET.cfg NET.weights -o FILE\n",
          .subcommands = {{"show", "show what is in a model: format, layers, sizes",
                           model_show_description, model_show_command},
                          {"make", "write a synthetic model of a given size, or a known network",
                           model_make_description, model_make_command},
                          {"pack", "make a network's weights ready to be read by layers",
                           model_pack_description, model_pack_command}},
          .examples =
              "  weightpager model show llama.gguf\n"
              "  weightpager model make --size 4GiB -o test.gguf\n",
          .operands = Operands::none};
}

int model_command(const std::vector<std::string>& words) {
  return run_subcommand(model_description(), words);
}

}  // namespace weightpager::tools
