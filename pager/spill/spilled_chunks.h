// Where the bytes of each chunk of spilled memory are while the chunk is not in the window.
//
// Problem. Spilled memory is the engine's own: nobody but the engine knows what it will write
// there. A chunk that has to go must not be written to the disk if the disk has its bytes already,
// since a disk writes slower than it reads, and wears out.
//
// Idea. Each chunk has a home:
//
//     zeros       nobody has written the chunk yet, or its block was freed
//     spill file  a place in the spill file has what the chunk held when it went last
//     file        the engine read a file into the chunk: from this byte of that file on
//     kept        a place in a file of chunks that outlive the run has it (kept_folder.h)
//
// A home comes with the content's hash. A chunk that leaves with the hash it came with was only
// read, and is dropped; any other chunk is written to a place of the spill file first. So nobody
// has to watch for writes while the engine computes, and whoever writes, the engine, the kernel or
// a device, is noticed.
//
// Pure bookkeeping: no memory of the engine's, no I/O, no clock. Cost: 40 bytes a chunk; O(1).
// Used by the pager's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/span.h"
#include "pager/spill/content_hash.h"
#include "pager/spill/kept_index.h"

namespace weightpager::spill {

enum class Home : uint8_t { zeros, spill_file, file, kept };

/// Asks, from the pager's thread, whether any block of the engine's lies in the chunk that begins
/// so many bytes behind the memory's first byte. What lies in a chunk without a block is never
/// asked for again.
struct BlocksInUse {
  bool (*is_any_at)(const void* context, uint64_t offset_bytes) = nullptr;  // nullptr: always
  const void* context = nullptr;
  /// Lists the blocks by their bytes in the memory, in any order, as many as there is room for;
  /// returns how many. May be asked from any thread, and waits for none. nullptr: none is known.
  size_t (*list)(const void* context, std::span<Span> blocks) = nullptr;

  bool is_any(uint64_t offset_bytes) const {
    return is_any_at == nullptr || is_any_at(context, offset_bytes);
  }
};

class SpilledChunks {
 public:
  /// What was written more often is written in every pass: it is no weight.
  static constexpr uint8_t weight_writes_max = 3;

  SpilledChunks(uint32_t chunks, BlocksInUse blocks) : chunks_(chunks), blocks_(blocks) {}

  Home home(uint32_t chunk) const { return chunks_[chunk].home; }
  /// Of `spill_file` and `kept`: the place. Of `file`: the byte. Requires a home that is not
  /// `zeros`.
  uint64_t offset_bytes(uint32_t chunk) const { return chunks_[chunk].offset_bytes; }
  /// Of `file` and `kept`: which one, as the caller numbers them.
  uint32_t file(uint32_t chunk) const { return chunks_[chunk].file; }

  /// Whether the chunk was ever touched or read into, since its last block was freed.
  bool is_in_use(uint32_t chunk) const { return chunks_[chunk].is_in_use; }
  void note_use(uint32_t chunk) { chunks_[chunk].is_in_use = true; }
  const BlocksInUse& blocks() const { return blocks_; }
  /// Whether the chunk has stayed once because it was not filled yet (unfinished_chunks.h).
  bool has_stayed(uint32_t chunk) const { return chunks_[chunk].has_stayed; }
  void note_stay(uint32_t chunk) { chunks_[chunk].has_stayed = true; }
  /// Whether a block lies in the chunk that begins there: its content has to be kept.
  bool has_block_at(uint64_t offset_bytes) const { return blocks_.is_any(offset_bytes); }

  /// Whether the hash of what the home has is known yet. It is not of a file that was never read.
  bool has_hash(uint32_t chunk) const { return chunks_[chunk].has_hash; }
  /// The file will not do as a home any more: the chunk goes to the spill file when it leaves.
  /// Requires the home `file`.
  void give_up_file(uint32_t chunk);
  /// Whether that was said of the chunk.
  bool is_file_given_up(uint32_t chunk) const { return chunks_[chunk].is_file_given_up; }

  /// What was read from the chunk's home has this hash.
  void set_hash(uint32_t chunk, const ContentHash& hash);
  /// Whether the home has the content with this hash already. Requires has_hash() or `zeros`.
  bool is_at_home(uint32_t chunk, const ContentHash& hash, bool is_all_zero) const;

  /// The place in the spill file that the chunk owns, if its home is there.
  std::optional<uint64_t> place(uint32_t chunk) const;
  /// The content with this hash has been written to the place. Counts as a write.
  void move_to_spill_file(uint32_t chunk, uint64_t place, const ContentHash& hash);
  /// The place of a kept chunk that the chunk is at home at, if it is.
  std::optional<KeptPlace> kept_place(uint32_t chunk) const;
  /// The content with this hash is there already, or was written there.
  void move_to_kept(uint32_t chunk, const KeptPlace& place, const ContentHash& hash,
                    bool was_written);
  /// Whether the chunk will be a weight if it is written once more, by how often it was written.
  bool may_be_weight(uint32_t chunk) const { return chunks_[chunk].writes < weight_writes_max; }
  /// How many chunks were written so often that they are none.
  uint32_t rewritten_chunks() const { return rewritten_chunks_; }
  /// The content has come back from home: the engine wants to read it, as it does its weights.
  void note_return(uint32_t chunk) { chunks_[chunk].has_come_back = true; }
  bool has_come_back(uint32_t chunk) const { return chunks_[chunk].has_come_back; }
  /// The content at home is a stage of what the chunk will have: the engine had not filled the
  /// chunk yet (unfinished_chunks.h).
  void note_stage(uint32_t chunk) { chunks_[chunk].is_stage = true; }
  bool is_stage(uint32_t chunk) const { return chunks_[chunk].is_stage; }
  /// The content is that of a file from a byte on. The place, if any, is the caller's to give back
  /// before.
  void move_to_file(uint32_t chunk, uint32_t file, uint64_t offset_bytes);
  /// The content is zeros, and the chunk is not in use. The same holds for its place.
  void forget(uint32_t chunk);

 private:
  struct Chunk {
    Home home = Home::zeros;
    bool is_in_use = false;
    bool has_hash = false;
    bool has_stayed = false;
    bool is_file_given_up = false;
    bool has_come_back = false;
    bool is_stage = false;
    uint8_t writes = 0;
    uint32_t file = 0;
    uint64_t offset_bytes = 0;
    ContentHash hash;
  };

  void move_to(Home home, uint32_t chunk, uint64_t place, const ContentHash& hash,
               bool was_written);
  /// Nothing is known of the chunk any more but how often it was written.
  void reset(uint32_t chunk, uint8_t writes);

  std::vector<Chunk> chunks_;
  uint32_t rewritten_chunks_ = 0;
  BlocksInUse blocks_;
};

}  // namespace weightpager::spill
