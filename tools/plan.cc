// `weightpager plan`: chooses the subcommand.
#include "tools/plan.h"

#include <fmt/format.h>

#include "tools/cli.h"

namespace weightpager::tools {
namespace {

Command plan_table() {
  return {.name = "weightpager plan",
          .purpose = "Plans the memory of a network before it runs.\n",
<<<<<<< HEAD
          .usage = "  weightpager plan activations NET.cfg|RECORDS.json [OPTIONS]\n",
          .subcommands = {{"activations",
                           "where activations lie, and how near that is to the "
                           "least possible"}},
          .examples = "  weightpager plan activations yolov4.cfg\n"};
=======
          .usage = "  weightpager plan primitives NET.cfg [OPTIONS]\n",
          .subcommands = {{"primitives", "how to compute each convolution: time against memory"}},
          .examples = "  weightpager plan primitives yolov3.cfg --budget 400MiB\n"};
>>>>>>> 9ecbc61bb1ae28e456de6cf48f3fc4d518bcb36c
}

}  // namespace

int plan_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string word = words.empty() ? "" : words.front();
  if (word == "-h" || word == "--help") {
    print(stdout, help_text(plan_table()));
    return exit_success;
  }
  const std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
<<<<<<< HEAD
  if (word == "activations") return plan_activations_command(rest);
  return misuse({fmt::format("plan: expected activations, found {}",
=======
  if (word == "primitives") return plan_primitives_command(rest);
  return misuse({fmt::format("plan: expected primitives, found {}",
>>>>>>> 9ecbc61bb1ae28e456de6cf48f3fc4d518bcb36c
                             word.empty() ? "nothing" : "'" + word + "'"),
                 "`weightpager plan --help` tells what it does"});
}

}  // namespace weightpager::tools
