#include "tools/cli/version.h"

#include <fmt/core.h>
#include <linux/version.h>

#include "commit.h"  // written by commit.cmake at every build

namespace weightpager::tools {

const char* version_number() { return WP_VERSION; }
const char* version_commit() { return WP_COMMIT; }

std::string version_text() {
  return fmt::format(
      "weightpager {} (commit {})\n"
      "liburing {}, Linux headers {}.{}\n"
      "mappers: move (from Linux 6.8), copy (from 5.7)\n"
      "readers: io_uring, pread\n",
      version_number(), version_commit(), WP_LIBURING_VERSION, LINUX_VERSION_CODE >> 16,
      LINUX_VERSION_CODE >> 8 & 0xff);
}

}  // namespace weightpager::tools
