// The reads that a reader has in flight.
//
// A table of fixed size: one row for each read of the caller, with the read's pieces. A piece is
// named by a single number, which goes to the kernel and back with its request. All kernel answers
// come in through the table, so a test can change them here.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/io/read_progress.h"

namespace weightpager::io {

/// For tests only. Sees every answer before the reader and returns the answer that the reader gets,
/// so that tests can make short reads, interruptions and failing disks.
class AnswerFilter {
 public:
  virtual ~AnswerFilter() = default;
  /// `answer` is the kernel's answer to `request`: a number of bytes, or a negative errno. Called
  /// by any thread, one call at a time.
  virtual int64_t filter(const ReadRequest& request, int64_t answer) = 0;
};

/// A row and a piece in one number.
using PieceName = uint32_t;

/// Not synchronised. Allocates in its constructor only.
class ReadTable {
 public:
  explicit ReadTable(const ReaderOptions& options);

  /// Makes a row for `read` and calls `start_piece(name)` for each of its pieces.
  template <typename StartPiece>
  void add(const Read& read, StartPiece start_piece) {
    const uint32_t row = take_free_row(read);
    for (uint32_t piece = 0; piece < rows_[row].piece_count(); piece++) {
      start_piece(row * pieces_max_ + piece);
    }
  }

  /// The next request of a piece.
  ReadRequest request(PieceName name) const;

  enum class After {
    ask_again,        // the piece goes on, with a new request
    wait_for_others,  // the piece is finished, its read is not
    read_finished,    // the caller must call `finish` for the read
  };
  After take_answer(PieceName name, int64_t answer);

  /// Frees the row of a finished read and returns its final answer.
  Completion finish(PieceName name);

  /// Calls `act(read)` for each read in flight, and forgets it.
  template <typename Act>
  void hand_over(Act act) {
    std::vector<bool> is_free(rows_.size());
    for (const uint32_t row : free_rows_) is_free[row] = true;
    for (uint32_t row = 0; row < rows_.size(); ++row) {
      if (is_free[row]) continue;
      act(rows_[row].read());
      free_rows_.push_back(row);
    }
  }

  uint32_t reads_in_flight() const;
  /// The most pieces that can be in flight.
  uint32_t pieces_max() const { return pieces_max_ * static_cast<uint32_t>(rows_.size()); }

 private:
  uint32_t take_free_row(const Read& read);

  ReaderOptions options_;
  uint32_t pieces_max_;  // of one read
  std::vector<ReadProgress> rows_;
  std::vector<uint32_t> free_rows_;
};

}  // namespace weightpager::io
