// `weightpager infer`: runs a Darknet network on pictures, with a sliver of its weights in memory.
#pragma once

namespace weightpager::tools {

int infer_command(int argc, char** argv);

}  // namespace weightpager::tools
