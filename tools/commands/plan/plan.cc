// `weightpager plan`: chooses the subcommand; without one it plans everything together.
#include "tools/commands/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace weightpager::tools {

Command plan_description() {
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
                       "where activations lie, and how near that is to the least possible",
                       plan_activations_description, plan_activations_command},
                      {"primitives", "how to compute each convolution: time against memory",
                       plan_primitives_description, plan_primitives_command},
                      {"budgets", "one memory budget for the weights of several networks",
                       plan_budgets_description, plan_budgets_command}},
      .options = plan_joint_options(),
      .examples =
          "  weightpager plan resnet50.cfg --budget 64MiB --explain -o resnet50.plan\n"
          "  weightpager plan yolov3.cfg resnet50.cfg --budget 300MiB --urgency 2,1\n"
          "  weightpager plan activations yolov4.cfg\n"
          "  weightpager plan primitives yolov3.cfg --budget 400MiB\n"
          "  weightpager plan budgets yolov3.cfg vgg19.cfg --budget 500MiB\n",
      .exit_status = "  0 planned, 1 the budget is too small or a file cannot be read, 2 misuse\n"};
}

int plan_command(const std::vector<std::string>& words) {
  const Command command = plan_description();
  const std::string word = words.empty() ? "" : words.front();
  std::vector<std::string> names;
  for (const Subcommand& it : command.subcommands) names.push_back(it.name);
  if (std::find(names.begin(), names.end(), word) != names.end()) {
    return run_subcommand(command, words);
  }
  std::error_code ignored;
  const bool is_option = word.starts_with('-');
  if (!is_option && !std::filesystem::exists(word, ignored) && !word.ends_with(".cfg")) {
    const std::string meant = nearest(word, names);
    return misuse({fmt::format("plan: expected a .cfg, or {}, found {}", fmt::join(names, ", "),
                               word.empty() ? "nothing" : "'" + word + "'"),
                   meant.empty() ? "`weightpager plan --help` explains them"
                                 : fmt::format("did you mean 'plan {}'?", meant)});
  }
  return carry_out(command, words, plan_joint_command);
}

}  // namespace weightpager::tools
