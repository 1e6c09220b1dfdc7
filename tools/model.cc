// `weightpager model`: chooses the subcommand.
#include "tools/model.h"

#include <fmt/core.h>

#include "tools/cli.h"

namespace weightpager::tools {
namespace {

Command model_table() {
  return {.name = "weightpager model",
          .purpose = "Looks into models and makes synthetic ones.\n",
          .usage =
              "  weightpager model show FILE\n"
              "  weightpager model make --size SIZE -o FILE\n"
              "  weightpager model make --net NAME -o DIR\n"
              "  weightpager model pack NET.cfg NET.weights -o FILE\n",
          .subcommands = {{"show", "what is in a model: format, layers, sizes"},
                          {"make", "write a synthetic model of a given size, or a known network"},
                          {"pack", "make a network's weights ready to be read by layers"}},
          .examples =
              "  weightpager model show llama.gguf\n"
              "  weightpager model make --size 4GiB -o test.gguf\n"};
}

}  // namespace

int model_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string word = words.empty() ? "" : words.front();
  if (word == "-h" || word == "--help") {
    fmt::print("{}", help_text(model_table()));
    return exit_success;
  }
  const std::vector<std::string> arguments(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (word == "show") return model_show_command(arguments);
  if (word == "make") return model_make_command(arguments);
  if (word == "pack") return model_pack_command(arguments);
  print_error({fmt::format("model: expected show, make or pack, found {}",
                           word.empty() ? "nothing" : fmt::format("'{}'", word)),
               "`weightpager model --help` tells what they do"});
  return exit_misuse;
}

}  // namespace weightpager::tools
