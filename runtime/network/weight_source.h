// A network's weights piece by piece, from a .weights file or a packed one.
//
// The executor of a network reads ranges of the file into memory of its own, in any way, and hands
// them over here. A piece is a run of a layer's output channels, so a layer need not be in memory
// as a whole. Values that there is one of per channel (biases, and the factors of batch
// normalization) are read at the start and stay: some 100 KiB for YOLOv4.
//
// A packed layer is checked against its checksum (some 10 GB/s), and a raw one is folded in place
// (a pass over its bytes). If a layer comes in several pieces, the first check is only complete
// with the last piece: until then, no results may leave the process. After that, each piece has a
// checksum of its own. Threads can share the work of these checksums, and the pieces need not all
// come again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/network/packed_file.h"
#include "runtime/network/weights_file.h"

namespace weightpager::network {

/// All at multiples of 4 KiB except `needed_bytes`, which ends where the piece does.
struct FileRange {
  uint64_t offset_bytes = 0;
  /// 0 for a layer without weights. The range may reach beyond the file's end.
  uint64_t length_bytes = 0;
  uint64_t needed_bytes = 0;
};

/// A run of a layer's output channels.
struct Piece {
  uint32_t layer = 0;
  uint32_t first_channel = 0;
  uint32_t end_channel = 0;

  bool operator==(const Piece&) const = default;
};

/// Does not keep the file open. Movable. Any thread may call `range` and `biases`; only one thread
/// at a time may call `take_in`.
class WeightSource {
 public:
  /// Recognises the kind of file, checks that it belongs to the network, and reads the values that
  /// stay. Only packed files have forms other than Darknet's, and layers in these come as one
  /// piece.
  static Result<WeightSource> open(const std::string& path, const Network& network,
                                   const WeightForms& forms = {});

  const std::string& path() const { return path_; }
  bool is_packed() const { return is_packed_; }
  size_t layers() const { return layers_.size(); }
  /// The layer as one piece.
  Piece whole(uint32_t layer) const { return {layer, 0, layers_.at(layer).channels}; }
  FileRange range(const Piece& piece) const;
  /// Whether the layer may come in several pieces, and the bytes of its weights.
  bool can_be_cut(uint32_t layer) const { return layers_.at(layer).can_be_cut; }
  uint64_t weight_bytes(uint32_t layer) const { return layers_.at(layer).weight_bytes; }

  /// By output channel, folded; nullptr for a layer without weights. Valid as long as this object.
  const float* biases(uint32_t layer) const;

  /// Makes weights of a piece's range after it was read. `bytes` are the range's, from its start
  /// on, at least `needed_bytes`. Bytes in front of the piece and behind it are not touched. Call
  /// this once after each reading. Until a layer was checked as a whole, call it for all its pieces
  /// in their order, beginning with the first; otherwise it fails. Returns [channel][…] as in
  /// LayerWeights, inside `bytes`; nullptr for a layer without weights. `threads` of OpenMP share
  /// the work; give more than one only if the caller also computes with them.
  Result<const float*> take_in(const Piece& piece, std::span<std::byte> bytes, int threads = 1);
  /// Call this before layers are cut in other ways. Nothing that is known of the former pieces
  /// holds for the new ones, even where some are the same, and whole layers are checked again.
  void forget_pieces();

  /// Where the result of take_in lies if the piece's range is now at `bytes`.
  const float* weights_in(const Piece& piece, const std::byte* bytes) const;

 private:
  struct Checksum;
  struct FreeChecksum {
    void operator()(Checksum* it) const;
  };
  struct KnownPiece {
    Piece piece;
    uint64_t checksum = 0;
  };
  struct PlacedLayer {
    uint32_t channels = 0;
    uint64_t weight_bytes = 0;
    /// All channels have equally many weights, in the channels' order: not in a plan's form.
    bool is_plain = true;
    /// Plain, and channels do not depend on each other.
    bool can_be_cut = true;
    /// The offset of the first channel's weights in the file.
    uint64_t offset_bytes = 0;
    std::vector<float> biases;
    /// The factors of the weights; empty where nothing is to be folded.
    std::vector<float> factors;
    /// For a packed layer: the checksum of its biases and weights.
    uint64_t checksum = 0;
    /// The pieces, with their checksums from when the whole layer was right.
    std::vector<KnownPiece> known_pieces;
    /// File, byte and layer, for messages.
    std::string where;
  };

  WeightSource();
  Status place_packed(model::HeaderReader& reader, const Network& network,
                      const WeightForms& forms);
  Status place_raw(model::HeaderReader& reader, const Network& network);
  static uint64_t bytes_before(const PlacedLayer& layer, uint32_t channel);
  Status check(PlacedLayer& layer, const Piece& piece, std::span<const std::byte> weights,
               int threads);
  Status check_whole(PlacedLayer& layer, const Piece& piece, std::span<const std::byte> weights,
                     int threads);
  /// Whether the piece follows the last one in the running checksum.
  bool follows(const Piece& piece) const;

  std::string path_;
  bool is_packed_ = false;
  std::vector<PlacedLayer> layers_;
  // The running checksum of a layer's pieces so far, and these pieces.
  std::unique_ptr<Checksum, FreeChecksum> running_;
  std::vector<KnownPiece> pieces_so_far_;
};

}  // namespace weightpager::network
