// `weightpager plan`: chooses the subcommand.
#include "tools/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/cli.h"

namespace weightpager::tools {
namespace {

struct Part {
  std::string_view name;
  int (*run)(const std::vector<std::string>& words);
};

constexpr std::array<Part, 3> parts{{{"activations", plan_activations_command},
                                     {"primitives", plan_primitives_command},
                                     {"budgets", plan_budgets_command}}};

Command plan_table() {
  return {.name = "weightpager plan",
          .purpose = "Plans the memory of networks before they run.\n",
          .usage =
              "  weightpager plan activations NET.cfg|RECORDS.json [OPTIONS]\n"
              "  weightpager plan primitives NET.cfg [OPTIONS]\n"
              "  weightpager plan budgets NET.cfg… --budget SIZE [OPTIONS]\n",
          .subcommands = {{"activations",
                           "where activations lie, and how near that is to the least possible"},
                          {"primitives", "how to compute each convolution: time against memory"},
                          {"budgets", "one memory budget for the weights of several networks"}},
          .examples =
              "  weightpager plan activations yolov4.cfg\n"
              "  weightpager plan primitives yolov3.cfg --budget 400MiB\n"
              "  weightpager plan budgets yolov3.cfg vgg19.cfg --budget 500MiB\n"};
}

}  // namespace

int plan_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string word = words.empty() ? "" : words.front();
  if (word == "-h" || word == "--help") {
    print(stdout, help_text(plan_table()));
    return exit_success;
  }
  const auto part =
      std::find_if(parts.begin(), parts.end(), [&](const Part& it) { return it.name == word; });
  if (part != parts.end()) return part->run({words.begin() + 1, words.end()});
  return misuse({fmt::format("plan: expected activations, primitives or budgets, found {}",
                             word.empty() ? "nothing" : "'" + word + "'"),
                 "`weightpager plan --help` tells what they do"});
}

}  // namespace weightpager::tools
