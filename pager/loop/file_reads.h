// Reads: from files into chunks' memory, neighbours with one request, and what becomes of bytes
// that do not come.
//
// Of a file that has copies on other drives, each read goes to the drive that will answer first. A
// copy's bytes count only if the copy is still the one that was checked. What a drive does not
// bring is read from another one; only what none of them brings has failed. A drive that has failed
// once is asked only for what no other one has.
//
// What a file no longer has, because it became shorter, is sealed like what the disk cannot read:
// whoever touches it gets SIGBUS, never zeros. A read that a change of the file overtook is done
// once more.
//
// Used by the pager's thread only; `resize` alone allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/drive_choice.h"
#include "pager/io/reader.h"
#include "pager/loop/bounce_buffers.h"
#include "pager/loop/chunk_mover.h"
#include "pager/loop/pager_options.h"

namespace weightpager {

class FileReads {
 public:
  FileReads(const PagerOptions& options, const LoopParts& parts, ChunkMover& chunks);

  /// `reads_ahead_max`: what the policy asks for at once, beside what threads wait for.
  Status open(uint32_t reads_ahead_max, int watched_fd);
  void close() { reader_.reset(); }
  io::Reader& reader() { return *reader_; }
  const io::Reader& reader() const { return *reader_; }
  /// So many chunks there are now.
  void resize(uint32_t chunks) { notes_.resize(chunks); }

  bool can_start() const {
    return reader_->reads_in_flight() < reads_max_ && zeros_.size() < reads_max_;
  }
  /// absent → reading. Begins when hand_over() is called, or a chunk that does not lie behind.
  void start(window::ChunkId chunk);
  /// Whether chunks of zeros, which need no read, are there: take_zeros() is due.
  bool has_zeros() const { return !zeros_.empty(); }
  /// reading → ready, of these.
  void take_zeros();
  void hand_over();

  /// reading → ready, of the first reads that are finished, as many as are shown together; what
  /// somebody waits for, or the policy wants, is shown. Returns the others. The caller starts other
  /// reads before it has these taken, since a disk may answer all reads at once, and would stand
  /// still while all of it is shown.
  std::span<const io::Completion> take_some(std::span<const io::Completion> finished,
                                            uint64_t now_ns);
  /// The same for chunks that a worker had.
  void take_worked(std::span<const ContentWork> done);
  /// Who waits for what does not come shall know for what, and why.
  void tell_of_hanging_read(uint64_t now_ns);

  /// Buffers for reads that are not aligned, if there are none yet.
  Status prepare_bounces() { return bounces_.open(chunk_bytes_); }
  /// Nobody shows the chunk any more: it goes as soon as its read ends. Requires that it is being
  /// read.
  void doom(window::ChunkId chunk) { notes_[chunk].is_doomed = true; }
  /// Chunks of files that were changed go, when the file has been left alone for a moment.
  void look_at_files(uint64_t now_ns);

 private:
  struct Notes {
    bool is_doomed = false;        // removed while it was being read
    bool is_stale = false;         // its file was changed while it was being read: once more
    bool is_read_again = false;    // and then no more
    bool gets_memory = false;      // see io::Read; of a run, the first one's
    uint64_t began_ns = 0;         // of a run, the first one's
    uint32_t drive = 0;            // that reads it
    io::DriveSet asked = 0;        // drives that could not read it; of a run, the first one's
    std::byte* bounced = nullptr;  // where its bytes come instead of its slot
  };
  /// What came of a chunk's read.
  struct Arrival {
    int error_number = 0;
    uint64_t bytes = 0;
    std::optional<spill::ContentHash> hash;  // if it was not known
  };

  void start_reader(const window::Run& run, io::DriveSet asked = 0);
  io::DriveSet to_ask(const ServedFile& served, io::DriveSet asked) const;
  void start_at_home(const window::Run& run, const ReadPlace& home);
  void start_bounced(window::ChunkId chunk, const ReadPlace& home);
  ReadPlace home_of(window::ChunkId chunk) const;
  bool lies_behind(window::ChunkId before, window::ChunkId chunk) const;
  void take_zeroed(window::ChunkId chunk);
  bool take_spilled(ServedFile& served, window::ChunkId chunk, const Arrival& arrival);
  bool start_work(window::ChunkId chunk, Arrival& arrival);
  void give_bounce(window::ChunkId chunk);
  void take_arrival(window::ChunkId chunk, const Arrival& arrival, window::Run& wanted);
  bool take_doomed(window::ChunkId chunk);
  bool make_ready(const ServedFile& served, window::ChunkId chunk);
  bool note_use(ServedFile& served, window::ChunkId chunk);
  void take(std::span<const io::Completion> finished, uint64_t now_ns);
  bool goes_along(const window::Run& run, window::ChunkId chunk, uint32_t count_max) const;
  std::byte* bytes_of(window::ChunkId chunk) const;
  bool reads_elsewhere(const window::Run& read, io::Completion& outcome);
  void account_read(const window::Run& read, uint64_t arrived_bytes, uint64_t now_ns);
  void give_up_drive(const window::Run& read, int error_number);
  bool take_chunk(window::ChunkId chunk, const Arrival& arrival);
  bool take_short_chunk(ServedFile& served, window::ChunkId chunk, uint64_t arrived_bytes);
  bool reads_again(window::ChunkId chunk);
  void drop_stale_chunks(const ServedFile& served);

  const PagerOptions& options_;
  const uint64_t chunk_bytes_;
  const uint32_t read_chunks_max_;  // that one request reads
  const uint32_t show_chunks_max_;  // that one step shows
  const LoopParts parts_;
  ChunkMover& chunks_;
  std::unique_ptr<io::Reader> reader_;
  std::vector<Notes> notes_;                  // by chunk
  std::vector<window::ChunkId> zeros_;        // are to be taken
  std::vector<window::ChunkId> zeros_taken_;  // meanwhile
  BounceBuffers bounces_;
  std::vector<window::ChunkId> to_bounce_;  // wait for a buffer
  window::Run to_start_;                    // as one request
  uint32_t reads_max_ = 0;
  io::DriveChoice drives_;
  io::DriveSet failing_drives_ = 0;
  uint64_t files_seen_ns_ = 0;
  bool has_told_of_hanging_read_ = false;
};

}  // namespace weightpager
