// Measures what a network's convolutions and changes of layout take here, once per machine.
//
// Problem. Times cannot be computed, and measuring all candidates of a network takes a minute.
//
// Idea. The least of several runs counts: everything else that the machine does only adds time.
// Measurements are kept in ~/.cache/weightpager/primitives-HASH.json, where HASH is of everything
// that times depend on, and equal layers of all networks share them. Only times are taken from the
// cache: oneDNN is asked for the candidates anew, and a layer whose candidates have changed is
// measured again.
//
// Candidates take turns in several rounds; one that is ten times slower than the best has only one
// round. Weights come from memory, not from a processor cache, as they do in networks larger than
// the caches. Pictures are as warm as the run before has left them; in a network, that is the layer
// before.
#pragma once

#include <functional>
#include <string>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

struct ProfilerOptions {
  int threads = 1;
  /// The path of the cache file; "" for no cache.
  std::string cache_path;
  /// Called with a line such as "convolution 3 of 20".
  std::function<void(const std::string&)> on_progress;
};

/// "AMD EPYC": as /proc/cpuinfo names it.
std::string processor_name();

/// Everything that times depend on: processor, instruction set, oneDNN, threads.
std::string machine_words(int threads);

/// Everything that `network` needs, from the cache or measured. A cache that cannot be read or
/// written costs a line on stderr and time.
Result<Profile> profile_network(const network::Network& network, const ProfilerOptions& options);

}  // namespace weightpager::plan
