#include "tools/probes/cache_misses.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pager/base/assert.h"

namespace weightpager::tools {

Result<CacheMisses> CacheMisses::open() {
  perf_event_attr wanted = {};
  wanted.size = sizeof wanted;
  wanted.type = PERF_TYPE_HARDWARE;
  wanted.config = PERF_COUNT_HW_CACHE_MISSES;
  wanted.exclude_kernel = 1;
  wanted.exclude_hv = 1;
  const long opened = syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (opened < 0) {
    return fail(fmt::format("the processor's counters cannot be had: perf_event_open: {}",
                            std::strerror(errno)),
                "use a machine that is not virtual, and kernel.perf_event_paranoid=2 or less");
  }
  return CacheMisses(OwnedFd(static_cast<int>(opened)));
}

uint64_t CacheMisses::count() const {
  uint64_t misses = 0;
  WP_ASSERT(read(counter_.get(), &misses, sizeof misses) == sizeof misses);
  return misses;
}

}  // namespace weightpager::tools
