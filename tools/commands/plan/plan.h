// `weightpager plan`: plans a network's memory before the network runs.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// Returns the exit status: 0 done, 1 the operation failed, 2 misuse.
int plan_command(const std::vector<std::string>& words);
Command plan_description();

/// The subcommands; `words` are the arguments after their names.
int plan_activations_command(const std::vector<std::string>& words);
Command plan_activations_description();
int plan_primitives_command(const std::vector<std::string>& words);
Command plan_primitives_description();
int plan_budgets_command(const std::vector<std::string>& words);
Command plan_budgets_description();

/// `weightpager plan` without a subcommand, and its options.
std::vector<Option> plan_joint_options();
int plan_joint_command(const Arguments& arguments);

}  // namespace weightpager::tools
