#include "tools/probes/mount_of.h"

#include <fmt/core.h>

#include <fstream>
#include <sstream>

namespace weightpager::tools {

// A line of mountinfo is `36 35 98:0 /root /mount/point options … - type source`.
Mount mount_of(int fd) {
  std::ifstream information(fmt::format("/proc/self/fdinfo/{}", fd));
  std::string key, number;
  while (information >> key >> number && key != "mnt_id:") continue;
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != number) continue;
    while (words >> word && word != "-") continue;
    Mount mount;
    words >> mount.filesystem >> mount.source;
    return mount;
  }
  return {};
}

}  // namespace weightpager::tools
