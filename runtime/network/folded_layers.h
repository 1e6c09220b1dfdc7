// A network's layers with batch normalization folded, one at a time, from either kind of file. This
// is for packing weights anew; a running network reads pieces into a window instead
// (weight_source.h).
//
// Cost: the largest layer in memory. A packed layer is checked against its checksum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/float_reader.h"
#include "runtime/network/network.h"
#include "runtime/network/packed_file.h"
#include "runtime/network/weights_file.h"

namespace weightpager::network {

class FoldedLayers {
 public:
  /// `path` is a .weights file of any version, or a packed file in Darknet's form. `network` must
  /// outlive this.
  static Result<FoldedLayers> open(const std::string& path, const Network& network);

  /// Valid until the next call.
  Result<LayerWeights> read(uint32_t layer);

 private:
  FoldedLayers(const std::string& path, const Network& network)
      : path_(path), network_(&network), reader_(path) {}
  Result<LayerWeights> read_packed(uint32_t layer);
  Result<LayerWeights> read_raw(uint32_t layer);

  std::string path_;
  const Network* network_;
  FloatReader reader_;
  // Only one of these two is used.
  std::vector<PackedPlace> packed_;
  RawPlaces raw_;
  // The floats of the layer that was read last.
  std::vector<float> floats_;
};

}  // namespace weightpager::network
