// `weightpager plan`: chooses the subcommand.
#include "tools/plan.h"

#include <fmt/format.h>

#include "tools/cli.h"

namespace weightpager::tools {
namespace {

Command plan_table() {
  return {.name = "weightpager plan",
          .purpose = "Plans the memory of networks before they run.\n",
          .usage = "  weightpager plan budgets NET.cfg… --budget SIZE [OPTIONS]\n",
          .subcommands = {{"budgets", "one memory budget for the weights of several networks"}},
          .examples = "  weightpager plan budgets yolov3.cfg vgg19.cfg --budget 500MiB\n"};
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
  if (word == "budgets") return plan_budgets_command(rest);
  return misuse(
      {fmt::format("plan: expected budgets, found {}", word.empty() ? "nothing" : "'" + word + "'"),
       "`weightpager plan --help` tells what it does"});
}

}  // namespace weightpager::tools
