// Chunks of spilled memory that are kept for the next run, and those that earlier runs have kept.
//
// A chunk that leaves the window and is not at home is looked up by its hash. What is found is
// compared with it, byte for byte, before the chunk's own bytes go: a hash alone, or an index that
// a power failure has left behind, is never believed. If the two are the same, the kept one is the
// chunk's home, and nothing is written. What is not found is written to this run's own kept file,
// and can be found from then on.
//
// What the engine writes over again is no weight. It goes to the spill file after a few times, and
// its place in the kept file is free again. Two things stay though they are at home nowhere: what
// the engine frees, if it ever came back from its place, as weights do; and what it had filled in
// part only when it left, since the next run will come by that, too. But no more of them than was
// ever in use at once.
//
// Used by the pager's thread only, which never waits for the disk here: a thread compares and
// writes records (kept_worker.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/file_identity.h"
#include "pager/loop/kept_worker.h"
#include "pager/spill/kept_folder.h"
#include "pager/spill/kept_index.h"

namespace weightpager {

class KeptChunks {
 public:
  /// Begins this run's file in the folder, and learns what is there.
  Status open(const std::string& folder, uint64_t chunk_bytes);
  /// Nothing is in flight. A file of this run's without a chunk goes.
  void close();
  bool is_open() const { return kept_.has_value(); }
  const std::string& folder() const { return folder_; }

  // ---- What is there ----

  /// If a kept chunk has this content, has the two compared, and returns its place, which is in
  /// use from now on: give it back by end_use().
  std::optional<spill::KeptPlace> compare(window::ChunkId chunk, const std::byte* bytes,
                                          const spill::ContentHash& hash);
  /// Of KeptWorker.
  std::span<const KeptComparison> take_compared(bool is_told) { return worker_.take_done(is_told); }
  uint32_t in_flight() const { return worker_.in_flight(); }
  int done_fd() const { return worker_.fd(); }
  /// The bytes at the place are not these. One line for the first one.
  void distrust(const spill::ContentHash& hash, const spill::KeptPlace& place, int error_number);
  /// A chunk is at home there now: the file is of use.
  void note_home(const spill::KeptPlace& place);
  /// `is_worth_keeping`: what lies there may be wanted by the next run.
  void end_use(const spill::KeptPlace& place, bool is_worth_keeping);

  // ---- This run's own ----

  /// A place to write to; nothing if there is no room for more, of which one line tells.
  std::optional<uint64_t> take_place();
  /// A place that this run's file has anyhow, for what finds no room elsewhere.
  std::optional<uint64_t> take_spare_place();
  /// What was to be written there was not.
  void give_place(uint64_t offset_bytes) { kept_->own.give_place(offset_bytes); }
  /// A write failed: the place is never used again, and no more is kept.
  void give_up_own();
  /// The content has been written there: a chunk is at home there now.
  void add(uint64_t offset_bytes, const spill::ContentHash& hash);
  /// A child process may read what lies there now.
  void hold_all() { kept_->own.hold_all(); }
  uint64_t own_bytes() const { return (index_->used() + index_->unused()) * chunk_bytes_; }

  // ---- Homes ----

  int fd(uint32_t file) const {
    return file == 0 ? kept_->own.fd() : kept_->earlier[file - 1].chunks.get();
  }
  bool is_direct(uint32_t file) const {
    return file == 0 ? kept_->own.is_direct() : kept_->earlier[file - 1].is_direct;
  }
  /// Whether the file has not been written to since this run looked into it.
  bool is_unchanged(uint32_t file) const;

 private:
  void note_record(uint64_t place, const spill::KeptRecordBytes& record);
  void free_unused();
  void tell_once_no_more(const char* why);

  std::string folder_;
  uint64_t chunk_bytes_ = 0;
  std::optional<spill::KeptFolder> kept_;
  std::vector<io::FileIdentity> identities_;  // of earlier files
  std::optional<spill::KeptIndex> index_;
  std::vector<bool> is_use_noted_;  // by file
  bool may_grow_ = true;            // this run's file
  bool is_own_given_up_ = false;
  bool has_told_of_no_more_ = false;
  bool has_told_of_damage_ = false;
  KeptWorker worker_;
};

}  // namespace weightpager
