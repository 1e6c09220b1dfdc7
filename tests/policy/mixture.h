// A mixture of experts without weights: its file's layout, an engine's touches, and the least that
// any policy could read.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/units.h"
#include "pager/policy/layer_order.h"
#include "tests/policy/simulation.h"

namespace weightpager::policy {

struct MixtureShape {
  uint32_t layers = 8;
  uint32_t experts = 16;
  uint32_t used = 3;
  uint64_t dense_bytes = 8 * MiB;  // of a layer
  uint64_t slab_bytes = 4 * MiB;   // an expert has three
  uint64_t chunk_bytes = chunk_bytes_max;
};

/// The experts that each layer uses for one token, each layer's in ascending order.
using Routing = std::vector<std::vector<uint32_t>>;

class Mixture {
 public:
  explicit Mixture(const MixtureShape& shape) : shape_(shape) {
    model_.format = model::Format::gguf;
    model_.files = {{"model", 0}};
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
      model_.layers.push_back({.name = "block " + std::to_string(layer), .tensors = {}});
      add_tensor(shape.dense_bytes);
      const auto first = static_cast<uint32_t>(model_.tensors.size());
      for (int part = 0; part < 3; ++part) add_tensor(shape.slab_bytes * shape.experts);
      for (uint32_t expert = 0; expert < shape.experts; ++expert) add_expert(layer, expert, first);
    }
    const uint64_t chunk_bytes = shape.chunk_bytes;
    chunks_ = static_cast<uint32_t>(round_up(end_bytes_, chunk_bytes) / chunk_bytes);
    append_chunk_order(model_, 0, {.count = chunks_, .chunk_bytes = chunk_bytes}, order_);
  }

  const MixtureShape& shape() const { return shape_; }
  const ChunkOrder& order() const { return order_; }
  uint32_t chunks() const { return chunks_; }
  uint32_t chunks_of_expert() const {
    return static_cast<uint32_t>(3 * shape_.slab_bytes / shape_.chunk_bytes);
  }

  std::vector<ChunkId> dense(uint32_t layer) const {
    const model::Tensor& tensor = model_.tensors[model_.layers[layer].tensors.front()];
    return chunks_in(tensor.offset_bytes, tensor.size_bytes);
  }
  std::vector<ChunkId> slab(uint32_t layer, uint32_t expert, size_t part) const {
    const model::Slab& slab = slab_bytes(layer, expert, part);
    return chunks_in(slab.offset_bytes, slab.size_bytes);
  }
  std::vector<ChunkId> all_of(uint32_t layer, uint32_t expert) const {
    std::vector<ChunkId> all;
    for (size_t part = 0; part < 3; ++part) {
      const auto chunks = slab(layer, expert, part);
      all.insert(all.end(), chunks.begin(), chunks.end());
    }
    return all;
  }

  struct Touch {
    ChunkId chunk;
    uint32_t offset_bytes;
  };
  /// What an engine touches for one token: of each layer what is dense, then all gates, ups, downs.
  std::vector<Touch> touches(const Routing& routing) const {
    std::vector<Touch> touched;
    for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
      for (ChunkId chunk : dense(layer)) touched.push_back({chunk, 0});
      for (size_t part = 0; part < 3; ++part) {
        for (uint32_t expert : routing[layer]) add_touches(layer, expert, part, touched);
      }
    }
    return touched;
  }

  Routing all_experts() const {
    std::vector<uint32_t> all(shape_.experts);
    std::iota(all.begin(), all.end(), 0u);
    return Routing(shape_.layers, all);
  }

 private:
  const model::Slab& slab_bytes(uint32_t layer, uint32_t expert, size_t part) const {
    return model_.experts[layer * shape_.experts + expert].slabs[part];
  }

  // The slab's first byte, then the first of each chunk.
  void add_touches(uint32_t layer, uint32_t expert, size_t part,
                   std::vector<Touch>& touched) const {
    auto offset_bytes =
        static_cast<uint32_t>(slab_bytes(layer, expert, part).offset_bytes % shape_.chunk_bytes);
    for (ChunkId chunk : slab(layer, expert, part)) {
      touched.push_back({chunk, std::exchange(offset_bytes, 0)});
    }
  }

  void add_tensor(uint64_t size_bytes) {
    model_.layers.back().tensors.push_back(static_cast<uint32_t>(model_.tensors.size()));
    model_.tensors.push_back({.name = "tensor " + std::to_string(model_.tensors.size()),
                              .type = "Q8_0",
                              .shape = {},
                              .offset_bytes = end_bytes_,
                              .size_bytes = size_bytes});
    end_bytes_ += size_bytes;
  }

  void add_expert(uint32_t layer, uint32_t index, uint32_t first_tensor) {
    model::Expert expert{.layer = layer, .index = index, .slabs = {}};
    for (uint32_t part = 0; part < 3; ++part) {
      const model::Tensor& tensor = model_.tensors[first_tensor + part];
      expert.slabs.push_back({first_tensor + part, tensor.offset_bytes + index * shape_.slab_bytes,
                              shape_.slab_bytes});
    }
    model_.experts.push_back(std::move(expert));
  }

  std::vector<ChunkId> chunks_in(uint64_t offset_bytes, uint64_t size_bytes) const {
    const uint64_t chunk_bytes = shape_.chunk_bytes;
    return Simulation::range(
        static_cast<ChunkId>(offset_bytes / chunk_bytes),
        static_cast<ChunkId>((offset_bytes + size_bytes - 1) / chunk_bytes) + 1);
  }

  MixtureShape shape_;
  model::Model model_;
  uint64_t end_bytes_ = 0;
  uint32_t chunks_ = 0;
  ChunkOrder order_;
};

/// Routes by Zipf's law: the expert of rank r is drawn with a weight of 1 / (r + 1)^exponent. Each
/// layer has its own ranks. Exponent 0: all alike.
class Router {
 public:
  Router(const MixtureShape& shape, double exponent, uint32_t seed)
      : shape_(shape), exponent_(exponent), random_(seed) {
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
      std::vector<uint32_t> ranks(shape.experts);
      std::iota(ranks.begin(), ranks.end(), 0u);
      std::shuffle(ranks.begin(), ranks.end(), random_);
      experts_by_rank_.push_back(std::move(ranks));
    }
  }

  Routing next() {
    Routing routing;
    for (const auto& by_rank : experts_by_rank_) {
      // Sampling without replacement: the largest of u^(1 / weight).
      std::vector<std::pair<double, uint32_t>> keys;
      for (uint32_t rank = 0; rank < shape_.experts; ++rank) {
        const double uniform = std::uniform_real_distribution(1e-12, 1.0)(random_);
        keys.emplace_back(std::pow(uniform, std::pow(rank + 1, exponent_)), by_rank[rank]);
      }
      std::sort(keys.rbegin(), keys.rend());
      std::vector<uint32_t> used;
      for (uint32_t i = 0; i < shape_.used; ++i) used.push_back(keys[i].second);
      std::sort(used.begin(), used.end());
      routing.push_back(std::move(used));
    }
    return routing;
  }

  /// In one layer two experts change their ranks.
  void drift() {
    auto& ranks = experts_by_rank_[random_() % shape_.layers];
    std::swap(ranks[random_() % shape_.experts], ranks[random_() % shape_.experts]);
  }

 private:
  MixtureShape shape_;
  double exponent_;
  std::mt19937 random_;
  std::vector<std::vector<uint32_t>> experts_by_rank_;
};

/// Misses of the policy that knows the future (Belady 1966: what is needed again last has to go) in
/// a cache of `capacity` experts, counted from token `from` on.
inline uint64_t least_misses(const std::vector<Routing>& tokens, size_t capacity, size_t from) {
  using Expert = std::pair<uint32_t, uint32_t>;
  struct Use {
    Expert expert;
    size_t token;
    size_t next = std::numeric_limits<size_t>::max();
  };
  std::vector<Use> uses;
  std::map<Expert, size_t> last;
  for (size_t token = 0; token < tokens.size(); ++token) {
    for (uint32_t layer = 0; layer < tokens[token].size(); ++layer) {
      for (uint32_t index : tokens[token][layer]) {
        const Expert expert{layer, index};
        if (last.contains(expert)) uses[last[expert]].next = uses.size();
        last[expert] = uses.size();
        uses.push_back({expert, token});
      }
    }
  }
  uint64_t misses = 0;
  std::map<Expert, size_t> next_use;                // of what is in the cache
  std::set<std::pair<size_t, Expert>> by_next_use;  // the same
  for (const Use& use : uses) {
    const auto found = next_use.find(use.expert);
    if (found != next_use.end()) {
      by_next_use.erase({found->second, use.expert});
    } else {
      misses += use.token >= from;
      if (next_use.size() == capacity) {
        const auto victim = std::prev(by_next_use.end());
        next_use.erase(victim->second);
        by_next_use.erase(victim);
      }
    }
    next_use[use.expert] = use.next;
    by_next_use.insert({use.next, use.expert});
  }
  return misses;
}

/// Misses of whoever knows all frequencies from token `from` on and keeps the most used experts,
/// always the same: where routing depends on nothing, nobody who does not know the future does
/// better.
inline uint64_t fixed_misses(const std::vector<Routing>& tokens, size_t capacity, size_t from) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> uses;
  uint64_t all = 0;
  for (size_t token = from; token < tokens.size(); ++token) {
    for (uint32_t layer = 0; layer < tokens[token].size(); ++layer) {
      for (uint32_t index : tokens[token][layer]) {
        ++uses[{layer, index}];
        ++all;
      }
    }
  }
  std::vector<uint64_t> counts;
  for (const auto& [expert, count] : uses) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  counts.resize(std::min(counts.size(), capacity));
  return all - std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace weightpager::policy
