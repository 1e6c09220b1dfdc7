// A network's weights piece by piece, from a .weights file or a packed one.
//
// Whoever executes a network reads ranges of the file into memory of its own, in whatever way, and
// hands them over here. A piece is a run of a layer's output channels, so that a layer need not be
// in memory as a whole. What there is one of per channel (biases, and what batch normalization
// comes to) is read at the start and stays: some 100 KiB for YOLOv4.
//
// A packed layer is checked against its checksum (some 10 GB/s), a raw one is folded in place (a
// pass over its bytes). A layer in several pieces can, the first time, only be checked with its
// last one: nothing that is computed may leave the process before that. From then on the pieces are
// known by checksums of their own, which threads can share the work of, and need not all come
// again.
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

/// At multiples of 4 KiB, but for `needed_bytes`, which ends where the piece does.
struct FileRange {
  uint64_t offset_bytes = 0;
  /// 0 for a layer without weights. May reach beyond the file's end.
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

/// Does not keep the file open. Movable. `range` and `biases` may be called by any thread,
/// `take_in` by one at a time.
class WeightSource {
 public:
  /// Recognises the kind of file, checks that it belongs to the network, and reads what stays.
  /// Forms other than Darknet's are in packed files only, and such layers come as one piece.
  static Result<WeightSource> open(const std::string& path, const Network& network,
                                   const WeightForms& forms = {});

  const std::string& path() const { return path_; }
  bool is_packed() const { return is_packed_; }
  size_t layers() const { return layers_.size(); }
  /// The layer as one piece.
  Piece whole(uint32_t layer) const { return {layer, 0, layers_.at(layer).channels}; }
  FileRange range(const Piece& piece) const;
  /// Whether the layer may come in several pieces, and how many bytes its weights are.
  bool can_be_cut(uint32_t layer) const { return layers_.at(layer).can_be_cut; }
  uint64_t weight_bytes(uint32_t layer) const { return layers_.at(layer).weight_bytes; }

  /// By output channel, folded; nullptr for a layer without weights. Valid as long as this object.
  const float* biases(uint32_t layer) const;

  /// Makes weights of a piece's range once it was read. `bytes` are the range's, from its start on,
  /// at least up to `needed_bytes`; what lies in front of the piece and behind it is not touched.
  /// To be called once after each reading; until a layer is known to be right, for all its pieces
  /// in their order, beginning with the first, else it is an error. Returns [channel][…] as in
  /// LayerWeights, inside `bytes`; nullptr without weights. `threads`: OpenMP's that share the
  /// work; more than one only for who computes with them, too.
  Result<const float*> take_in(const Piece& piece, std::span<std::byte> bytes, int threads = 1);
  /// Layers are going to be cut in other ways: what is known of the former pieces says nothing of
  /// those, even where some are the same, and whole layers are checked again.
  void forget_pieces();

  /// Where take_in's result is, if the piece's range now lies at `bytes`.
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
    /// The channels' shares of the weights are equal, and in their order: not in a plan's form.
    bool is_plain = true;
    /// And channels do not depend on each other.
    bool can_be_cut = true;
    /// Of the first channel's weights.
    uint64_t offset_bytes = 0;
    std::vector<float> biases;
    /// What weights are multiplied with; empty where nothing is to be folded.
    std::vector<float> factors;
    /// Of a packed layer: of its biases and weights.
    uint64_t checksum = 0;
    /// Of its pieces, as they were when the whole was right.
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
  /// The piece that the running checksum ends with.
  bool follows(const Piece& piece) const;

  std::string path_;
  bool is_packed_ = false;
  std::vector<PlacedLayer> layers_;
  // Of a layer's pieces so far, and what each of them was.
  std::unique_ptr<Checksum, FreeChecksum> running_;
  std::vector<KnownPiece> pieces_so_far_;
};

}  // namespace weightpager::network
