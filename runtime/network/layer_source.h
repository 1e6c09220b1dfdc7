// A network's weights a layer at a time, from a .weights file or a packed one.
//
// Whoever executes a network reads a range of the file into memory of its own, in whatever way, and
// hands it over here; what comes back are pointers into that memory. A packed layer is checked
// against its checksum (some 10 GB/s), a raw one is folded in place (a pass over its bytes).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/network/weights_file.h"

namespace weightpager::network {

/// At multiples of 4 KiB. A raw file's last range may reach beyond the file's end.
struct FileRange {
  uint64_t offset_bytes = 0;
  /// 0 for a layer without weights.
  uint64_t length_bytes = 0;
};

/// Does not keep the file open. Immutable, so threads may share it.
class LayerSource {
 public:
  /// Recognises the kind of file and checks that it belongs to the network, without reading
  /// weights.
  static Result<LayerSource> open(const std::string& path, const Network& network);

  const std::string& path() const { return path_; }
  bool is_packed() const { return is_packed_; }
  size_t layers() const { return layers_.size(); }
  FileRange range(size_t layer) const;

  /// Makes weights of a layer's range once it was read. `bytes` are the range's, from its start on,
  /// at least up to the file's end; what lies in front of the layer and behind it is not touched.
  /// The weights lie inside of them. To be called once after each reading.
  Result<LayerWeights> take_in(size_t layer, std::span<std::byte> bytes) const;

 private:
  struct PlacedLayer {
    Layer layer;
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    /// Of a packed layer.
    uint64_t checksum = 0;
    /// File, byte and layer, for messages.
    std::string where;
  };

  LayerSource() = default;
  void place(const Network& network, uint64_t offset_bytes, uint64_t size_bytes,
             uint64_t checksum_of_it);

  std::string path_;
  bool is_packed_ = false;
  std::vector<PlacedLayer> layers_;
};

}  // namespace weightpager::network
