// The progress of one read or write.
//
// The kernel answers a request in pieces, in any order, and not always whole: it may stop short, be
// interrupted, reach the end of the file, or fail. The rules that make one final answer of these
// are here, as a pure state machine: kernel answers go in, the next request comes out. Both readers
// use it and have no rules of their own.
//
//  - After a short answer a piece goes on from the last aligned byte before the answer's end,
//    because a direct request may not start anywhere else; the few bytes between go twice.
//  - For a read the file ends where the kernel answers 0, or where a short answer reaches the
//  file's
//    size. A write has no such end: an answer of 0 is no progress.
//  - After EINTR, EAGAIN and short answers that bring no progress the request is made again, but
//    only so many times in a row. So it is after ECANCELED, which is the answer to a request that
//    needs a thread of the kernel's where there can be none. It then goes without such a thread.
//  - The first piece, in file order, that did not come whole decides for the whole: it failed
//    there, or the file ends there. The answers to later pieces do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pager/io/reader.h"

namespace weightpager::io {

/// A request to the kernel: to read into `buffer`, or to write from it, which leaves it as it is.
struct KernelRequest {
  int fd = -1;
  uint64_t offset_bytes = 0;
  uint32_t length_bytes = 0;
  std::byte* buffer = nullptr;
  bool is_write = false;
  bool gets_memory = false;  // see Read
};

class ReadProgress {
 public:
  /// A piece is given up after so many answers in a row that bring no progress.
  static constexpr uint32_t patience_answers = 64;

  /// Allocates for up to `pieces_max` pieces; nothing else here allocates.
  explicit ReadProgress(uint32_t pieces_max);

  /// Splits `read` into pieces of `piece_bytes` (a multiple of 4 KiB), the last one shorter.
  void begin(const Read& read, uint32_t piece_bytes);
  void begin(const Write& write, uint32_t piece_bytes);

  uint32_t piece_count() const { return static_cast<uint32_t>(pieces_.size()); }

  /// Starts what was begun, as a whole, in another reader.
  void start_anew(Reader& reader) const;

  /// The next request of `piece`, which must not be finished.
  KernelRequest request(uint32_t piece) const;

  /// Takes the kernel's answer to request(piece): a number of bytes, or a negative errno.
  /// `file_bytes` is the file's size now, which matters if the answer is short; UINT64_MAX if
  /// unknown. Returns whether the piece is finished; if not, it has another request.
  bool take_answer(uint32_t piece, int64_t answer, uint64_t file_bytes);

  /// All pieces are finished.
  bool is_finished() const { return pieces_unfinished_ == 0; }

  /// The final answer, once finished.
  Completion completion() const;

 private:
  struct Piece {
    uint32_t begin_bytes = 0;  // within the whole
    uint32_t length_bytes = 0;
    uint32_t arrived_bytes = 0;  // while unfinished: a multiple of the alignment
    uint32_t patience_answers = ReadProgress::patience_answers;
    int error_number = 0;
  };

  void begin(uint64_t tag, const KernelRequest& whole, uint32_t piece_bytes);
  bool finish(Piece& piece, uint32_t arrived_bytes, int error_number);
  bool ask_again(Piece& piece, int error_number);

  uint64_t tag_ = 0;
  KernelRequest whole_;
  uint32_t alignment_bytes_ = 1;
  uint32_t pieces_unfinished_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace weightpager::io
