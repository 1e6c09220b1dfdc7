#include "tools/commands/plan/measured_profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/plan/profile_cache.h"
#include "runtime/plan/profiler.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

Result<plan::Profile> measure_profile(const network::Network& network, int threads, plan::Pace pace,
                                      const plan::Choose& choose) {
  plan::ProfilerOptions profiler{
      .threads = threads, .cache_path = plan::profile_cache_path(plan::machine_words(threads))};
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  profiler.on_progress = [&](const std::string& text) {
    if (is_terminal) print(stderr, fmt::format("\r\033[Kmeasuring {}", text));
  };
  auto profile = plan::profile_network(network, profiler);
  if (profile) profile = plan::profile_in_place(network, *profile, profiler, pace, choose);
  if (is_terminal) print(stderr, "\r\033[K");
  return profile;
}

}  // namespace weightpager::tools
