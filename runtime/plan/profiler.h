// Measures what a network's convolutions and changes of layout take here, once per machine.
//
// Problem. Times cannot be computed, and measuring all candidates of a network takes a minute.
//
// Idea. The least of several runs: whatever else the machine does only adds. What was measured is
// kept in ~/.cache/weightpager/primitives-HASH.json, HASH being of what times depend on, and equal
// layers of all networks share it. From the cache only times are taken: candidates are asked of
// oneDNN anew, and a layer whose candidates are others than in the cache is measured again.
//
// Candidates take turns in several rounds; what is ten times slower than the best has only one.
// Weights come from memory, not from a cache, as they do in networks larger than the caches;
// pictures are as warm as the run before has left them, which in a network was the layer before.
#pragma once

#include <functional>
#include <string>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

struct ProfilerOptions {
  int threads = 1;
  /// Where the cache is; "" for none.
  std::string cache_path;
  /// "convolution 3 of 20".
  std::function<void(const std::string&)> on_progress;
};

/// What times depend on: processor, instruction set, oneDNN, threads.
std::string machine_words(int threads);

/// Everything that `network` needs, from the cache or measured. A cache that cannot be read or
/// written costs a line on stderr and time.
Result<Profile> profile_network(const network::Network& network, const ProfilerOptions& options);

}  // namespace weightpager::plan
