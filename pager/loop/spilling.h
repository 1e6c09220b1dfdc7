// Spilled memory: chunks that the engine wrote go to the spill file before they leave the window.
//
// A chunk is first taken out of the engine's sight. Then a worker looks through its bytes
// (content_workers.h). If its home has the same bytes already (spill/spilled_chunks.h), the chunk
// is dropped. Otherwise its slot is written, and is free when the write has ended. Whoever touches
// the chunk meanwhile waits for the step that is under way, since a page that is read from cannot
// be moved; then the chunk comes back into sight. What cannot be written, because the folder is
// full or the disk fails, stays in the window.
//
// Used by the pager's thread only; only the commands allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/file_identity.h"
#include "pager/io/reader.h"
#include "pager/loop/chunk_mover.h"
#include "pager/loop/file_reads.h"
#include "pager/loop/pager_options.h"
#include "pager/loop/paging_service.h"
#include "pager/spill/unfinished_chunks.h"

namespace weightpager {

class Spilling {
 public:
  Spilling(const PagerOptions& options, const LoopParts& parts, ChunkMover& chunks,
           FileReads& reads);

  /// A child process is being made: nothing is to be taken out.
  bool is_forking() const { return is_forking_; }
  /// ready or mapped → absent or leaving. The policy is told of what cannot go.
  void evict(const window::Run& run);

  /// leaving → absent, of the chunks among what workers have done that are at home; or → ready, if
  /// a thread waits for the chunk or it cannot be written. The others are being written from now
  /// on.
  void take_looked_through(std::span<const ContentWork> done);
  /// leaving → absent, of the chunks that were compared with kept ones (kept_chunks.h); or → ready,
  /// if a thread waits for the chunk. Those that are not the same are being written from now on.
  void take_compared(std::span<const KeptComparison> done);
  /// leaving → absent, of the writes among what is finished; or → ready, if a thread waits for the
  /// chunk or it could not be written. Returns the reads, until the next call.
  std::span<const io::Completion> take_writes(std::span<const io::Completion> finished);
  /// Now and then: what found no room in the folder may find some now.
  void look_for_room(uint64_t now_ns);

  // ---- Commands ----

  /// What lies in the chunks that are wholly in the range is zeros from now on. Returns false if
  /// some chunks could not be taken out: their bytes are as before.
  bool forget(std::byte* address, uint64_t length_bytes);
  /// From now on the memory has the file's bytes from `offset_bytes` on. Requires whole chunks.
  /// Returns how many bytes, from the first one on, were taken: what lies behind them is as before.
  Result<uint64_t> read_lazily(const LazyRead& read);
  /// The chunks of this file go to the spill file, and depend on the file no more. nullptr: of all
  /// files, those chunks whose bytes a child process could not map. Returns where such chunks begin
  /// that are not in memory: they have to be touched for that.
  std::vector<std::byte*> give_up_file(const io::FileIdentity* file);
  /// A child process is about to be made, which inherits what is shown now; the parts of the memory
  /// that lie elsewhere are added to `parts`. Nothing leaves the window until end_fork(). Returns
  /// false if that takes another moment: call it again.
  bool begin_fork(std::vector<InheritedPart>& parts);
  void end_fork();

 private:
  struct Leaving {
    window::ChunkId chunk = window::no_chunk;
    /// The content is not needed any more.
    bool is_superseded = false;
    spill::ContentHash hash;
    bool is_stage = false;  // on the way to what the chunk will have
    // Where it is being written, in this run's kept file or in the spill file:
    bool is_to_be_kept = false;
    uint64_t place = 0;
    // What it is being compared with:
    spill::KeptPlace kept;
  };

  Leaving take_out(window::ChunkId chunk);
  void take(const ContentWork& looked_through);
  void take(const io::Completion& written);
  void take(const KeptComparison& compared);
  bool start_comparison(const ServedFile& served, Leaving leaving);
  bool evict(ServedFile& served, window::ChunkId chunk);
  bool hide(const ServedFile& served, window::ChunkId chunk);
  bool start_write(ServedFile& served, Leaving leaving);
  bool take_place(const ServedFile& served, Leaving& leaving);
  void give_taken_place(const Leaving& leaving);
  void keep_in_window(window::ChunkId chunk);
  void keep_unwritten(const ServedFile& served, const Leaving& leaving, int error_number);
  void drop(ServedFile& served, window::ChunkId chunk);
  bool empty(ServedFile& served, window::ChunkId chunk);
  bool is_elsewhere(window::ChunkId chunk) const;
  bool depends_on(const spill::SpilledChunks& content, uint32_t index,
                  const io::FileIdentity* file) const;
  void give_place_back(ServedFile& served, uint32_t index, bool is_forgotten);
  void tell_failed_write(const ServedFile& served, const Leaving& leaving, int error_number);
  void tell_no_room(int error_number);
  void tell_too_much_is_written();
  void add_inherited(const ServedFile& served, uint32_t index, std::byte* address,
                     std::vector<InheritedPart>& parts) const;
  void advise_children(int advice) const;

  const PagerOptions& options_;
  const LoopParts parts_;
  ChunkMover& chunks_;
  FileReads& reads_;
  std::vector<Leaving> leaving_;  // looked through, or being written
  spill::UnfinishedChunks unfinished_;
  std::vector<io::Completion> reads_finished_;
  bool is_forking_ = false;
  bool has_forked_ = false;
  bool has_no_room_ = false;
  bool has_told_of_no_room_ = false;
  bool has_told_of_failed_write_ = false;
  bool has_told_of_failed_copy_ = false;
  bool has_told_of_rewriting_ = false;
  uint64_t looked_for_room_ns_ = 0;
};

}  // namespace weightpager
