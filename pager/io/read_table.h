// The reads that a reader has in flight.
//
// A table of fixed size: one row per read of the caller, and in each row the read's pieces. A piece
// is named by a single number, which travels to the kernel and back with its request. The table is
// also the one place where kernel answers come in, so it is here that a test can change them.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/io/read_progress.h"

namespace weightpager::io {

/// Tests only. Sees every answer before the reader does and returns what the reader shall believe,
/// so that short reads, interruptions and failing disks can be had at will.
class AnswerFilter {
 public:
  virtual ~AnswerFilter() = default;
  /// `answer` is what the kernel said to `request`: a number of bytes, or a negative errno. Called
  /// once at a time, from any thread.
  virtual int64_t filter(const ReadRequest& request, int64_t answer) = 0;
};

/// Row and piece in one number.
using PieceName = uint32_t;

/// Not synchronised. Allocates in its constructor only.
class ReadTable {
 public:
  explicit ReadTable(const ReaderOptions& options);

  /// A new row for `read`; calls `start_piece(name)` for each of its pieces.
  template <typename StartPiece>
  void add(const Read& read, StartPiece start_piece) {
    const uint32_t row = take_free_row(read);
    for (uint32_t piece = 0; piece < rows_[row].piece_count(); piece++) {
      start_piece(row * pieces_max_ + piece);
    }
  }

  /// What to ask the kernel for on behalf of a piece.
  ReadRequest request(PieceName name) const;

  enum class After {
    ask_again,        // the piece goes on, with a new request
    wait_for_others,  // the piece is finished, its read is not
    read_finished,    // the read is to be handed to `finish`
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
  /// Most pieces that can be in flight.
  uint32_t pieces_max() const { return pieces_max_ * static_cast<uint32_t>(rows_.size()); }

 private:
  uint32_t take_free_row(const Read& read);

  ReaderOptions options_;
  uint32_t pieces_max_;  // of one read
  std::vector<ReadProgress> rows_;
  std::vector<uint32_t> free_rows_;
};

}  // namespace weightpager::io
