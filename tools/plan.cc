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
  return {
      .name = "weightpager plan",
      .purpose =
          "Plans the memory of networks before they run: one budget for everything that they\n"
          "need, or its parts one by one.\n",
      .usage =
          "  weightpager plan NET.cfg… [--budget SIZE] [OPTIONS]\n"
          "  weightpager plan activations NET.cfg|RECORDS.json [OPTIONS]\n"
          "  weightpager plan primitives NET.cfg [OPTIONS]\n"
          "  weightpager plan budgets NET.cfg… --budget SIZE [OPTIONS]\n",
      .subcommands = {{"activations",
                       "where activations lie, and how near that is to the least possible"},
                      {"primitives", "how to compute each convolution: time against memory"},
                      {"budgets", "one memory budget for the weights of several networks"}},
      .options = plan_joint_options(),
      .examples =
          "  weightpager plan resnet50.cfg --budget 64MiB --explain -o resnet50.plan\n"
          "  weightpager plan yolov3.cfg resnet50.cfg --budget 300MiB --urgency 2,1\n"
          "  weightpager plan activations yolov4.cfg\n"
          "  weightpager plan primitives yolov3.cfg --budget 400MiB\n"
          "  weightpager plan budgets yolov3.cfg vgg19.cfg --budget 500MiB\n",
      .exit_status = "  0 planned, 1 the budget is too small or a file cannot be read, 2 misuse\n"};
}

}  // namespace

int plan_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string word = words.empty() ? "" : words.front();
  const auto part =
      std::find_if(parts.begin(), parts.end(), [&](const Part& it) { return it.name == word; });
  if (part != parts.end()) return part->run({words.begin() + 1, words.end()});
  std::vector<std::string> names;
  for (const Part& it : parts) names.emplace_back(it.name);
  if (const std::string meant = nearest(word, names); !meant.empty()) {
    return misuse({fmt::format("plan: there is no '{}'", word),
                   fmt::format("did you mean 'plan {}'?", meant)});
  }
  const auto arguments = parse_arguments(plan_table(), words);
  if (!arguments) return misuse(arguments.error());
  if (arguments->has("help")) {
    print(stdout, help_text(plan_table()));
    return exit_success;
  }
  return plan_joint_command(*arguments);
}

}  // namespace weightpager::tools
