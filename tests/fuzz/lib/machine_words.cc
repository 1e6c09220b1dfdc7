// read_plan asks for which machine a plan was made, and the answer comes from oneDNN, which no
// parser needs.
#include "runtime/plan/profiler.h"

namespace weightpager::plan {

std::string machine_words(int /*threads*/) { return "a machine"; }

}  // namespace weightpager::plan
