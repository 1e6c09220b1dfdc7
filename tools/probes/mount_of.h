// Says what file system an open file lies on.
#pragma once

#include <string>

namespace weightpager::tools {

struct Mount {
  std::string filesystem;  // "ext4"; "" if unknown
  std::string source;      // "/dev/vda1"
};

Mount mount_of(int fd);

}  // namespace weightpager::tools
