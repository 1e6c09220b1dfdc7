// The weightpager command.
#include "tools/commands.h"

int main(int argc, char** argv) {
  return weightpager::tools::weightpager_command({argv + (argc > 0), argv + argc});
}
