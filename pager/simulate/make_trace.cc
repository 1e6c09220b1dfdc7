#include "pager/simulate/make_trace.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "pager/base/assert.h"
#include "pager/policy/chunk_size.h"
#include "pager/policy/layer_order.h"

namespace weightpager::simulate {
namespace {

constexpr uint64_t tensor_alignment_bytes = 32;
constexpr uint64_t random_touches_per_pass = 100;
constexpr uint32_t drifting_share = 8;

/// From 0 to 1, neither included. The standard library's distributions differ between libraries.
double uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}

uint32_t below(uint32_t end, std::mt19937_64& random) {
  return static_cast<uint32_t>(uniform(random) * end);
}

/// Which experts of each layer a pass uses.
class Router {
 public:
  Router(const std::vector<uint32_t>& experts_by_layer, uint32_t used, const Workload& workload)
      : used_(used), exponent_(workload.zipf_exponent), random_(workload.seed) {
    for (const uint32_t experts : experts_by_layer) {
      std::vector<uint32_t> ranks(experts);
      std::iota(ranks.begin(), ranks.end(), 0u);
      for (uint32_t i = experts; i > 1; --i) std::swap(ranks[i - 1], ranks[below(i, random_)]);
      by_rank_.push_back(std::move(ranks));
    }
  }

  /// Ascending. Drawn without replacement: the largest of u^(1 / weight).
  std::vector<uint32_t> draw(size_t layer) {
    const std::vector<uint32_t>& ranks = by_rank_[layer];
    std::vector<std::pair<double, uint32_t>> keys;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const double weight = std::pow(static_cast<double>(rank + 1), -exponent_);
      keys.emplace_back(std::log(uniform(random_)) / weight, ranks[rank]);
    }
    const size_t count = std::min<size_t>(used_, keys.size());
    std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count), keys.end(),
                      std::greater<>());
    std::vector<uint32_t> used;
    for (size_t i = 0; i < count; ++i) used.push_back(keys[i].second);
    std::sort(used.begin(), used.end());
    return used;
  }

  std::vector<uint32_t> all(size_t layer) const {
    std::vector<uint32_t> used(by_rank_[layer].size());
    std::iota(used.begin(), used.end(), 0u);
    return used;
  }

  void drift() {
    for (std::vector<uint32_t>& ranks : by_rank_) {
      const auto experts = static_cast<uint32_t>(ranks.size());
      for (uint32_t i = 0; i < experts / drifting_share; ++i) {
        std::swap(ranks[below(experts, random_)], ranks[below(experts, random_)]);
      }
    }
  }

 private:
  const uint32_t used_;
  const double exponent_;
  std::mt19937_64 random_;
  std::vector<std::vector<uint32_t>> by_rank_;  // by layer with experts
};

/// Lays a model's files into chunks, one after the other, and walks through its layers.
class Walker {
 public:
  Walker(const model::Model& model, const Workload& workload, std::string name)
      : model_(model),
        workload_(workload),
        random_(workload.seed + 1),
        is_of_experts_(model.tensors.size(), false) {
    trace_.name = std::move(name);
    trace_.threads = workload.threads;
    trace_.chunk_bytes = policy::chunk_bytes_for(model);
    for (uint32_t file = 0; file < model.files.size(); ++file) add_file(file);
    for (const model::Expert& expert : model.experts) {
      for (const model::Slab& slab : expert.slabs) is_of_experts_[slab.tensor] = true;
    }
    experts_begin_.assign(model.layers.size() + 1, 0);
    for (const model::Expert& expert : model.experts) ++experts_begin_[expert.layer + 1];
    std::partial_sum(experts_begin_.begin(), experts_begin_.end(), experts_begin_.begin());
  }

  Trace walk() {
    std::vector<uint32_t> experts_by_layer;
    for (size_t layer = 0; layer < model_.layers.size(); ++layer) {
      experts_by_layer.push_back(experts_begin_[layer + 1] - experts_begin_[layer]);
    }
    const auto used = static_cast<uint32_t>(std::max<uint64_t>(model_.experts_used, 1));
    Router router(experts_by_layer, used, workload_);
    for (uint32_t pass = 0; pass < workload_.passes; ++pass) {
      const bool drifts = workload_.drift_passes > 0 && pass > 0;
      if (drifts && pass % workload_.drift_passes == 0) router.drift();
      joins_from_ = trace_.touches.size();
      trace_.pass_begins.push_back(joins_from_);
      walk_pass(pass < workload_.prompt_passes, router);
    }
    return std::move(trace_);
  }

 private:
  void add_file(uint32_t file) {
    const uint64_t size_bytes = model_.files[file].size_bytes;
    const auto count =
        static_cast<uint32_t>(round_up(size_bytes, trace_.chunk_bytes) / trace_.chunk_bytes);
    const policy::ChunkRange range{.first = trace_.chunks,
                                   .count = count,
                                   .offset_bytes = 0,
                                   .chunk_bytes = trace_.chunk_bytes};
    policy::append_chunk_order(model_, file, range, trace_.order);
    file_begins_.push_back(trace_.chunks);
    trace_.chunks += count;
  }

  void walk_pass(bool is_prompt, Router& router) {
    const double factor = is_prompt ? workload_.prompt_factor : 1;
    compute_ns_per_byte_ = factor * 1e9 / workload_.compute_bytes_per_s * workload_.threads;
    for (uint32_t layer = 0; layer < model_.layers.size(); ++layer) {
      const model::Layer& it = model_.layers[layer];
      if (it.access == model::Access::sparse) {
        look_up_a_row(it);
        continue;
      }
      for (const uint32_t tensor : it.tensors) {
        const model::Tensor& whole = model_.tensors[tensor];
        if (!is_of_experts_[tensor]) touch(whole.file, whole.offset_bytes, whole.size_bytes);
      }
      touch_experts(layer, is_prompt ? router.all(layer) : router.draw(layer));
    }
  }

  // The gates of all experts that are used, then their ups, then their downs.
  void touch_experts(uint32_t layer, const std::vector<uint32_t>& used) {
    const std::span experts(model_.experts.data() + experts_begin_[layer],
                            experts_begin_[layer + 1] - experts_begin_[layer]);
    size_t slabs = 0;
    for (const model::Expert& expert : experts) slabs = std::max(slabs, expert.slabs.size());
    for (size_t part = 0; part < slabs; ++part) {
      for (const uint32_t number : used) {
        if (part >= experts[number].slabs.size()) continue;
        const model::Slab& slab = experts[number].slabs[part];
        touch(model_.tensors[slab.tensor].file, slab.offset_bytes, slab.size_bytes);
      }
    }
  }

  void look_up_a_row(const model::Layer& layer) {
    for (const uint32_t tensor : layer.tensors) {
      const model::Tensor& table = model_.tensors[tensor];
      if (table.size_bytes == 0) continue;
      const auto offset =
          static_cast<uint64_t>(uniform(random_) * static_cast<double>(table.size_bytes));
      touch(table.file, table.offset_bytes + offset, 1);
    }
  }

  // By all threads, which meet before.
  void touch(uint32_t file, uint64_t begin, uint64_t length_bytes) {
    if (workload_.threads == 1) return touch_alone(file, begin, length_bytes);
    const auto shares = divide_matrix(length_bytes, workload_.threads, workload_.division);
    for (const MatrixShare& share : shares) {
      joins_from_ = trace_.touches.size();
      trace_.parts.push_back({joins_from_, share.thread, share.begin_bytes == 0});
      touch_alone(file, begin + share.begin_bytes, share.end_bytes - share.begin_bytes);
    }
  }

  // If what the thread touched before ends in this tensor's first chunk, it touches that chunk
  // once.
  void touch_alone(uint32_t file, uint64_t begin, uint64_t length_bytes) {
    const uint64_t chunk_bytes = trace_.chunk_bytes;
    for (uint64_t at = begin; at < begin + length_bytes;) {
      const uint64_t end =
          std::min(round_down(at, chunk_bytes) + chunk_bytes, begin + length_bytes);
      const auto chunk = static_cast<ChunkId>(file_begins_[file] + at / chunk_bytes);
      const auto compute_ns =
          static_cast<uint64_t>(static_cast<double>(end - at) * compute_ns_per_byte_);
      const bool goes_on =
          trace_.touches.size() > joins_from_ && trace_.touches.back().chunk == chunk;
      if (goes_on) {
        trace_.touches.back().compute_ns += compute_ns;
      } else {
        trace_.touches.push_back({chunk, static_cast<uint32_t>(at % chunk_bytes), compute_ns});
      }
      at = end;
    }
  }

  const model::Model& model_;
  const Workload& workload_;
  std::mt19937_64 random_;
  std::vector<bool> is_of_experts_;      // by tensor
  std::vector<uint32_t> experts_begin_;  // by layer: in Model::experts
  std::vector<ChunkId> file_begins_;
  double compute_ns_per_byte_ = 0;
  uint64_t joins_from_ = 0;  // in Trace::touches: where the pass, or the thread's part, began
  Trace trace_;
};

}  // namespace

model::Model model_of(const TraceShape& shape) {
  model::Model model;
  model.format = model::Format::gguf;
  model.experts_used = shape.experts_used;
  uint64_t end_bytes = 0;
  const auto add_tensor = [&](std::string name, uint64_t size_bytes) {
    const auto number = static_cast<uint32_t>(model.tensors.size());
    model.tensors.push_back({.name = std::move(name),
                             .type = "Q8_0",
                             .shape = {},
                             .offset_bytes = end_bytes,
                             .size_bytes = size_bytes});
    model.layers.back().tensors.push_back(number);
    model.layers.back().size_bytes += size_bytes;
    end_bytes = round_up(end_bytes + size_bytes, tensor_alignment_bytes);
    return number;
  };
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = "block " + std::to_string(layer);
    model.layers.push_back({.name = block, .tensors = {}});
    if (shape.dense_bytes > 0) add_tensor(block + " dense", shape.dense_bytes);
    if (shape.experts == 0) continue;
    uint32_t parts[3];
    for (uint32_t& part : parts)
      part = add_tensor(block + " experts", shape.slab_bytes * shape.experts);
    for (uint32_t expert = 0; expert < shape.experts; ++expert) {
      model::Expert it{.layer = layer, .index = expert, .slabs = {}};
      for (const uint32_t part : parts) {
        const uint64_t offset_bytes = model.tensors[part].offset_bytes + expert * shape.slab_bytes;
        it.slabs.push_back({part, offset_bytes, shape.slab_bytes});
      }
      model.experts.push_back(std::move(it));
    }
  }
  model.files.push_back({"model", end_bytes});
  return model;
}

Trace make_trace(const model::Model& model, const Workload& workload, std::string name) {
  return Walker(model, workload, std::move(name)).walk();
}

Trace interleave(const std::vector<Trace>& traces, std::string name) {
  WP_ASSERT(!traces.empty());
  Trace all;
  all.name = std::move(name);
  all.chunk_bytes = traces.front().chunk_bytes;
  all.threads = traces.front().threads;
  std::vector<ChunkId> first_chunks;
  for (const Trace& trace : traces) {
    WP_ASSERT(trace.chunk_bytes == all.chunk_bytes && trace.threads == all.threads &&
              trace.pass_begins.size() == traces.front().pass_begins.size());
    const ChunkId first = all.chunks;
    const auto first_position = static_cast<uint32_t>(all.order.cyclic.size());
    const uint32_t first_layer = all.order.experts.empty() ? 0 : all.order.experts.back().layer + 1;
    for (const ChunkId chunk : trace.order.cyclic) all.order.cyclic.push_back(first + chunk);
    for (const uint32_t begin : trace.order.layer_begins) {
      all.order.layer_begins.push_back(first_position + begin);
    }
    for (const ChunkId chunk : trace.order.revisited) all.order.revisited.push_back(first + chunk);
    for (const ChunkId chunk : trace.order.shared) all.order.shared.push_back(first + chunk);
    for (policy::ExpertChunks expert : trace.order.experts) {
      expert.layer += first_layer;
      for (auto& slab : expert.slabs) {
        for (policy::ChunkPart& part : slab) part.chunk += first;
      }
      all.order.experts.push_back(std::move(expert));
    }
    first_chunks.push_back(first);
    all.chunks += trace.chunks;
  }
  for (size_t pass = 0; pass < traces.front().pass_begins.size(); ++pass) {
    all.pass_begins.push_back(all.touches.size());
    for (size_t i = 0; i < traces.size(); ++i) {
      const uint64_t end = traces[i].pass_end(pass);
      for (const ThreadPart& part : traces[i].parts) {
        if (part.begin < traces[i].pass_begins[pass] || part.begin >= end) continue;
        const uint64_t shifted = part.begin - traces[i].pass_begins[pass] + all.touches.size();
        all.parts.push_back({shifted, part.thread, part.is_met});
      }
      const auto begin = traces[i].touches.begin();
      for (auto it = begin + static_cast<std::ptrdiff_t>(traces[i].pass_begins[pass]);
           it != begin + static_cast<std::ptrdiff_t>(end); ++it) {
        all.touches.push_back({first_chunks[i] + it->chunk, it->offset_bytes, it->compute_ns});
      }
    }
  }
  return all;
}

Trace make_random(uint32_t chunks, uint64_t touches, uint64_t compute_ns_each, uint64_t seed) {
  Trace trace;
  trace.name = "random";
  trace.chunks = chunks;
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < touches; ++i) {
    if (i % random_touches_per_pass == 0) trace.pass_begins.push_back(i);
    trace.touches.push_back({below(chunks, random), policy::anywhere, compute_ns_each});
  }
  return trace;
}

}  // namespace weightpager::simulate
