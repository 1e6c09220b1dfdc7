// Threads take piece after piece of the tensors, generate it in a buffer of their own and write it
// to its place; as a piece's bytes depend on nothing else, the order does not matter.
#include "pager/model/synthetic/weight_writer.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <thread>

#include "pager/base/mutex.h"
#include "pager/base/units.h"
#include "pager/model/synthetic/weights.h"

namespace weightpager::model {

uint64_t PlacedTensor::size_bytes() const {
  return plan.elements() / type->block_elements * type->block_bytes;
}

namespace {

constexpr uint64_t piece_bytes_max = 8 * MiB;

struct Piece {
  const PlacedTensor* tensor;
  /// In the tensor; a multiple of a word and of a block.
  uint64_t offset_bytes;
  uint64_t size_bytes;
};

std::vector<Piece> cut_into_pieces(const std::vector<PlacedTensor>& tensors) {
  std::vector<Piece> pieces;
  for (const PlacedTensor& tensor : tensors) {
    const uint64_t unit = tensor.type->block_bytes * sizeof(uint64_t);
    const uint64_t step = round_down(piece_bytes_max, unit);
    for (uint64_t offset = 0; offset < tensor.size_bytes(); offset += step)
      pieces.push_back({&tensor, offset, std::min(step, tensor.size_bytes() - offset)});
  }
  return pieces;
}

class WeightWriter {
 public:
  WeightWriter(MadeFile& file, std::vector<Piece> pieces, uint64_t seed, ProgressCounter& progress)
      : file_(file), pieces_(std::move(pieces)), seed_(seed), progress_(progress) {}

  /// What every thread does: takes pieces until none is left, or one has failed.
  void run() {
    std::vector<uint64_t> buffer(piece_bytes_max / sizeof(uint64_t));
    for (size_t i = next_++; i < pieces_.size(); i = next_++) {
      Status status = write_piece(pieces_[i], buffer);
      const MutexLock lock(mutex_);
      if (!status && !failure_) failure_ = std::move(status).error();
      if (failure_) return;
      progress_.add(pieces_[i].size_bytes);
    }
  }

  Status result() {
    const MutexLock lock(mutex_);
    if (failure_) return tl::make_unexpected(*failure_);
    return {};
  }

 private:
  Status write_piece(const Piece& piece, std::span<uint64_t> buffer) {
    const PlacedTensor& tensor = *piece.tensor;
    const auto words =
        buffer.first(round_up(piece.size_bytes, sizeof(uint64_t)) / sizeof(uint64_t));
    fill_weights(*tensor.type, tensor.plan.kind, tensor_seed(seed_, tensor.plan.gguf_name),
                 piece.offset_bytes / sizeof(uint64_t), words);
    return file_.write(tensor.offset_bytes + piece.offset_bytes,
                       {reinterpret_cast<const char*>(words.data()), piece.size_bytes});
  }

  MadeFile& file_;
  const std::vector<Piece> pieces_;
  const uint64_t seed_;
  ProgressCounter& progress_;
  std::atomic<size_t> next_ = 0;
  Mutex mutex_;
  std::optional<Error> failure_ WP_GUARDED_BY(mutex_);
};

}  // namespace

Status write_weights(MadeFile& file, const std::vector<PlacedTensor>& tensors, uint64_t seed,
                     unsigned threads, ProgressCounter& progress) {
  WeightWriter writer(file, cut_into_pieces(tensors), seed, progress);
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([&] { writer.run(); });
    writer.run();
  }
  return writer.result();
}

}  // namespace weightpager::model
