// What is known of a served file: its name, whose bytes its chunks are, and how long each layer was
// waited for.
//
// Made when a file is first mapped and never changed after that but for its counters, so that the
// pager's thread and whoever looks on (pager/control) share it, and it lives as long as either
// needs it. Cost: 4 bytes a chunk and 8 a layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pager/model/model.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager {

class ServedLayers {
 public:
  static constexpr uint32_t no_layer = UINT32_MAX;

  /// `model` has the file as its file 0.
  ServedLayers(std::string name, uint64_t size_bytes, model::Model model, uint64_t chunk_bytes,
               uint32_t chunks)
      : name_(std::move(name)),
        size_bytes_(size_bytes),
        model_(std::move(model)),
        layer_of_chunk_(chunks, no_layer),
        stall_ns_(new telemetry::Counter[model_.layers.size() + 1]{}) {
    for (uint32_t layer = 0; layer < model_.layers.size(); ++layer) {
      for (const uint32_t tensor : model_.layers[layer].tensors) {
        const model::Tensor& it = model_.tensors[tensor];
        if (it.size_bytes == 0) continue;
        const uint64_t last = (it.offset_bytes + it.size_bytes - 1) / chunk_bytes;
        for (uint64_t chunk = it.offset_bytes / chunk_bytes; chunk <= last && chunk < chunks;
             ++chunk) {
          uint32_t& owner = layer_of_chunk_[chunk];
          if (owner == no_layer) owner = layer;
        }
      }
    }
  }

  /// The file's.
  const std::string& name() const { return name_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const model::Model& model() const { return model_; }
  /// The first in execution order that has bytes in the file's chunk, or no_layer.
  uint32_t layer_of(uint32_t chunk) const { return layer_of_chunk_[chunk]; }

  /// Time with an engine thread waiting, by what it waited for; of no_layer, what is no layer's.
  /// The pager's thread adds; over all files they add up to Telemetry::stall_ns.
  void add_stall(uint32_t layer, uint64_t ns) { telemetry::add(stall_ns_[slot_of(layer)], ns); }
  uint64_t stall_ns(uint32_t layer) const {
    return stall_ns_[slot_of(layer)].load(std::memory_order_relaxed);
  }

 private:
  size_t slot_of(uint32_t layer) const { return std::min<size_t>(layer, model_.layers.size()); }

  const std::string name_;
  const uint64_t size_bytes_;
  const model::Model model_;
  std::vector<uint32_t> layer_of_chunk_;
  std::unique_ptr<telemetry::Counter[]> stall_ns_;
};

}  // namespace weightpager
