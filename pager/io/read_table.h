// The reads and writes that a reader has in flight.
//
// A table of fixed size: one row for each read or write of the caller, with its pieces. A piece is
// named by a single number, which goes to the kernel and back with its request. All kernel answers
// come in through the table, so a test can change them here.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/assert.h"
#include "pager/io/read_progress.h"

namespace weightpager::io {

/// For tests only. Sees every answer before the reader and returns the answer that the reader gets,
/// so that tests can make short answers, interruptions, full and failing disks.
class AnswerFilter {
 public:
  virtual ~AnswerFilter() = default;
  /// `answer` is the kernel's answer to `request`: a number of bytes, or a negative errno. Called
  /// by any thread, one call at a time.
  virtual int64_t filter(const KernelRequest& request, int64_t answer) = 0;
};

/// A row and a piece in one number.
using PieceName = uint32_t;

/// Not synchronised. Allocates in its constructor only.
class ReadTable {
 public:
  explicit ReadTable(const ReaderOptions& options);

  /// Makes a row for `asked`, a Read or a Write, and calls `start_piece(name)` for each of its
  /// pieces.
  template <typename Asked, typename StartPiece>
  void add(const Asked& asked, StartPiece start_piece) {
    WP_ASSERT(asked.length_bytes <= options_.read_bytes_max);
    const uint32_t row = take_free_row();
    rows_[row].begin(asked, options_.device_read_bytes);
    for (uint32_t piece = 0; piece < rows_[row].piece_count(); piece++) {
      start_piece(row * pieces_max_ + piece);
    }
  }

  /// The next request of a piece.
  KernelRequest request(PieceName name) const;

  enum class After {
    ask_again,        // the piece goes on, with a new request
    wait_for_others,  // the piece is finished, its row is not
    row_finished,     // the caller must call `finish` for the row
  };
  After take_answer(PieceName name, int64_t answer);

  /// Frees a finished row and returns its final answer.
  Completion finish(PieceName name);

  /// Starts everything in flight anew in another reader, and forgets it.
  void hand_over(Reader& reader);

  uint32_t in_flight() const;
  /// The most pieces that can be in flight.
  uint32_t pieces_max() const { return pieces_max_ * static_cast<uint32_t>(rows_.size()); }

 private:
  uint32_t take_free_row();

  ReaderOptions options_;
  uint32_t pieces_max_;  // of one row
  std::vector<ReadProgress> rows_;
  std::vector<uint32_t> free_rows_;
};

}  // namespace weightpager::io
