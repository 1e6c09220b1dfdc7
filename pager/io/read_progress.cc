#include "pager/io/read_progress.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::io {
namespace {

/// The alignment that `whole` itself has, at most 4 KiB. A direct request has at least the
/// alignment that its file requires; for others any alignment will do.
uint32_t alignment_of(const KernelRequest& whole) {
  const uint64_t bits = whole.offset_bytes | whole.length_bytes |
                        reinterpret_cast<uintptr_t>(whole.buffer) | os_page_bytes;
  return 1u << std::countr_zero(bits);
}

bool is_transient(int error_number) {
  return error_number == EINTR || error_number == EAGAIN || error_number == ECANCELED;
}

}  // namespace

ReadProgress::ReadProgress(uint32_t pieces_max) { pieces_.reserve(pieces_max); }

void ReadProgress::begin(const Read& read, uint32_t piece_bytes) {
  begin(read.tag,
        {.fd = read.fd,
         .offset_bytes = read.offset_bytes,
         .length_bytes = read.length_bytes,
         .buffer = read.buffer,
         .gets_memory = read.gets_memory},
        piece_bytes);
}

void ReadProgress::begin(const Write& write, uint32_t piece_bytes) {
  begin(write.tag,
        {.fd = write.fd,
         .offset_bytes = write.offset_bytes,
         .length_bytes = write.length_bytes,
         .buffer = const_cast<std::byte*>(write.buffer),
         .is_write = true},
        piece_bytes);
}

void ReadProgress::begin(uint64_t tag, const KernelRequest& whole, uint32_t piece_bytes) {
  tag_ = tag;
  whole_ = whole;
  alignment_bytes_ = alignment_of(whole);
  pieces_.clear();
  // An empty request is one empty piece: the kernel says whether its file is one for it.
  uint32_t begin_bytes = 0;
  do {
    WP_ASSERT(pieces_.size() < pieces_.capacity());
    const uint32_t length_bytes = std::min(piece_bytes, whole.length_bytes - begin_bytes);
    pieces_.push_back({.begin_bytes = begin_bytes, .length_bytes = length_bytes});
    begin_bytes += length_bytes;
  } while (begin_bytes < whole.length_bytes);
  pieces_unfinished_ = piece_count();
}

void ReadProgress::start_anew(Reader& reader) const {
  if (whole_.is_write) {
    return reader.start_write({.tag = tag_,
                               .fd = whole_.fd,
                               .offset_bytes = whole_.offset_bytes,
                               .length_bytes = whole_.length_bytes,
                               .buffer = whole_.buffer});
  }
  reader.start({.tag = tag_,
                .fd = whole_.fd,
                .offset_bytes = whole_.offset_bytes,
                .length_bytes = whole_.length_bytes,
                .buffer = whole_.buffer,
                .gets_memory = whole_.gets_memory});
}

KernelRequest ReadProgress::request(uint32_t index) const {
  const Piece& piece = pieces_[index];
  const uint32_t done_bytes = piece.begin_bytes + piece.arrived_bytes;
  return {.fd = whole_.fd,
          .offset_bytes = whole_.offset_bytes + done_bytes,
          .length_bytes = piece.length_bytes - piece.arrived_bytes,
          .buffer = whole_.buffer + done_bytes,
          .is_write = whole_.is_write,
          .gets_memory = whole_.gets_memory};
}

bool ReadProgress::take_answer(uint32_t index, int64_t answer, uint64_t file_bytes) {
  Piece& piece = pieces_[index];
  if (answer < 0) {
    const int error_number = static_cast<int>(-answer);
    if (is_transient(error_number)) return ask_again(piece, error_number);
    return finish(piece, piece.arrived_bytes, error_number);
  }

  const uint64_t arrived_bytes = piece.arrived_bytes + static_cast<uint64_t>(answer);
  if (arrived_bytes >= piece.length_bytes) return finish(piece, piece.length_bytes, 0);
  const bool at_end_of_file =
      !whole_.is_write &&
      (answer == 0 || whole_.offset_bytes + piece.begin_bytes + arrived_bytes >= file_bytes);
  if (at_end_of_file) return finish(piece, static_cast<uint32_t>(arrived_bytes), 0);

  const auto settled_bytes = static_cast<uint32_t>(round_down(arrived_bytes, alignment_bytes_));
  if (settled_bytes == piece.arrived_bytes) return ask_again(piece, EIO);
  piece.arrived_bytes = settled_bytes;
  piece.patience_answers = patience_answers;
  return false;
}

bool ReadProgress::finish(Piece& piece, uint32_t arrived_bytes, int error_number) {
  WP_ASSERT(pieces_unfinished_ > 0);
  pieces_unfinished_--;
  piece.arrived_bytes = arrived_bytes;
  piece.error_number = error_number;
  return true;
}

bool ReadProgress::ask_again(Piece& piece, int error_number) {
  whole_.gets_memory = false;
  if (--piece.patience_answers > 0) return false;
  return finish(piece, piece.arrived_bytes, error_number);
}

Completion ReadProgress::completion() const {
  WP_ASSERT(is_finished());
  Completion completion{.tag = tag_};
  for (const Piece& piece : pieces_) {
    completion.error_number = piece.error_number;
    completion.length_bytes += piece.arrived_bytes;
    if (piece.arrived_bytes < piece.length_bytes) break;
  }
  return completion;
}

}  // namespace weightpager::io
