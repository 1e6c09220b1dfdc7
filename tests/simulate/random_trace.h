// Traces as an engine would never leave them, and as it would: for property tests.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pager/simulate/make_trace.h"
#include "pager/simulate/simulator.h"

namespace weightpager::simulate {

inline Workload workload(uint32_t passes, uint64_t seed = 1) {
  Workload it;
  it.passes = passes;
  it.seed = seed;
  return it;
}

/// Layers of `layer_chunks`, one after the other, each chunk touched once a pass.
inline Trace dense(uint32_t layers, uint32_t layer_chunks, uint32_t passes) {
  return make_trace(model_of({.layers = layers, .dense_bytes = layer_chunks * chunk_bytes_max}),
                    workload(passes), "dense");
}

inline Trace mixture(double zipf_exponent, uint32_t drift_passes, uint64_t seed,
                     uint32_t passes = 40) {
  Workload it = workload(passes, seed);
  it.zipf_exponent = zipf_exponent;
  it.drift_passes = drift_passes;
  return make_trace(model_of({.layers = 6,
                              .dense_bytes = 2 * MiB,
                              .experts = 16,
                              .experts_used = 3,
                              .slab_bytes = 1 * MiB}),
                    it, "mixture");
}

inline Trace any_engine() {
  const auto seed = *rc::gen::inRange<uint64_t>(0, 1000);
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      return dense(*rc::gen::inRange(1u, 12u), *rc::gen::inRange(1u, 20u), 4);
    case 1:
      return mixture(*rc::gen::element(0.0, 1.0), *rc::gen::element(0u, 5u), seed, 8);
    case 2:
      return interleave({dense(5, 8, 4), dense(3, 10, 4)}, "two models");
    case 3:
      return make_random(*rc::gen::inRange(1u, 150u), 600, 100'000, seed);
    default: {
      // An order that the file tells wrongly, and strays.
      Trace trace = dense(6, 10, 5);
      std::mt19937_64 random(seed);
      for (size_t i = 1; i < trace.order.cyclic.size(); ++i) {
        std::swap(trace.order.cyclic[i], trace.order.cyclic[random() % (i + 1)]);
      }
      for (Touch& touch : trace.touches) {
        if (random() % 16 == 0) touch.chunk = static_cast<ChunkId>(random() % trace.chunks);
      }
      return trace;
    }
  }
}

/// With borders of tensors in some chunks of the order.
inline Trace any_trace() {
  Trace trace = any_engine();
  std::mt19937_64 random(*rc::gen::inRange<uint64_t>(0, 1000));
  const uint64_t one_of = *rc::gen::element(1, 4, 20);
  for (const ChunkId chunk : trace.order.cyclic) {
    const bool is_within = chunk > 0 && chunk + 1 < trace.chunks;
    if (is_within && random() % one_of == 0) trace.order.shared.push_back(chunk);
  }
  std::sort(trace.order.shared.begin(), trace.order.shared.end());
  return trace;
}

/// What some engine may have been seen to do, or a file that someone made up: any chunks in any
/// order, with any times.
inline policy::AccessProfile any_access_profile(uint32_t chunks) {
  std::mt19937_64 random(*rc::gen::inRange<uint64_t>(0, 1000));
  policy::AccessProfile access_profile;
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) access_profile.order.push_back(chunk);
  std::shuffle(access_profile.order.begin(), access_profile.order.end(), random);
  access_profile.order.resize(*rc::gen::inRange(0u, chunks + 1));
  // Some chunks are visited again.
  for (size_t i = access_profile.order.size(); i-- > 0;) {
    if (random() % 8 == 0) access_profile.order.push_back(access_profile.order[i]);
  }
  for (size_t i = 0; i < access_profile.order.size(); ++i) {
    constexpr float times_ns[] = {0, 1, 100'000, 86'400e9};
    access_profile.computed_ns.push_back(times_ns[random() % 4]);
  }
  return access_profile;
}

inline DiskModel any_disk() {
  DiskModel disk =
      *rc::gen::elementOf(std::vector<DiskModel>(disk_presets().begin(), disk_presets().end()));
  disk.jitter = *rc::gen::element(0.0, 0.5, 3.0);
  return disk;
}

inline std::string any_policy() {
  std::vector<std::string> names;
  for (const auto& policy : policy::named_policies()) names.emplace_back(policy.name);
  return *rc::gen::elementOf(names);
}

}  // namespace weightpager::simulate
