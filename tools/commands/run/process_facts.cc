#include "tools/commands/run/process_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace weightpager::tools {

uint64_t pid_namespace() {
  struct stat facts = {};
  return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

uint64_t start_ticks(pid_t process_id) {
  std::ifstream file(fmt::format("/proc/{}/stat", process_id));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The process's name may contain any character.
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 2));
  std::string field;
  fields >> field;
  if (std::strchr("ZXx", field[0]) != nullptr) return 0;
  constexpr int fields_before_start = 18;
  for (int i = 0; i < fields_before_start; ++i) fields >> field;
  uint64_t ticks = 0;
  fields >> ticks;
  return fields ? ticks : 0;
}

}  // namespace weightpager::tools
