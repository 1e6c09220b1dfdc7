// Where every chunk is: the one place that knows chunk states and slots.
//
//     absent ──start_read──▶ reading ──finish_read──▶ ready ──map──▶ mapped
//        ▲                      │                     │  ▲              │
//        └──────── fail ────────┘◀────── release ─────┘  └──── hide ────┤
//        └◀──────────────────────── release ────────────────────────────┘
//
// A chunk of spilled memory leaves in two steps: whether the engine wrote to it has to be found
// out, and what was written has to go to the spill file:
//
//     ready ──begin_leaving──▶ leaving ──release──▶ absent
//       ▲                         │
//       └──────────stay───────────┘
//
// Only so many leave at once: a small part of the window, and enough to keep a device busy. They
// are room that comes, like slots that are being made.
//
// A slot is memory that one chunk can be read into. A chunk that is moved into a region keeps its
// slot (the memory itself has moved); one that is copied gives the slot back and holds memory of
// the region instead. Either way a chunk that is not absent counts against `resident_max`, the
// window. Pure bookkeeping: no memory, no clock, no I/O; one thread. Every operation is O(1),
// except that `start_read` and `bring_together` search for free slots (free_slots.h).
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/assert.h"
#include "pager/window/free_slots.h"

namespace weightpager::window {

using ChunkId = uint32_t;
inline constexpr ChunkId no_chunk = UINT32_MAX;

enum class ChunkState : uint8_t {
  absent,   // bytes are in the file only
  reading,  // a read into its slot is in flight
  ready,    // bytes are in its slot, or all but a page of them in the region (tripwires.h):
            // touching it faults, and is served in µs
  mapped,   // the engine reads it without the pager
  failed,   // could not be read: touching it gives SIGBUS
  leaving,  // its slot is looked through, or written to the spill file: a touch waits until then
};

class ChunkTable {
 public:
  /// No more chunks leave at once, however large the window is.
  static constexpr uint32_t leaving_max = 8;

  /// At most `resident_max` chunks are resident (reading, ready or mapped) at once.
  explicit ChunkTable(uint32_t resident_max) : resident_max_(resident_max) {}

  /// Appends `count` absent chunks and returns the first one's id.
  ChunkId add_chunks(uint32_t count);
  /// Adds a slot that reads may fill from now on.
  void add_slot(SlotId slot);
  /// Takes a free slot away, the last one. Requires free_slots() > 0.
  SlotId remove_slot();

  uint32_t chunks() const { return static_cast<uint32_t>(chunks_.size()); }
  ChunkState state(ChunkId chunk) const { return chunks_[chunk].state; }
  SlotId slot(ChunkId chunk) const { return chunks_[chunk].slot; }
  bool is_resident(ChunkId chunk) const {
    return state(chunk) != ChunkState::absent && state(chunk) != ChunkState::failed;
  }

  uint32_t resident() const { return resident_; }
  uint32_t resident_max() const { return resident_max_; }
  uint32_t reading() const { return reading_; }
  uint32_t leaving() const { return leaving_; }
  /// Whether as many chunks are leaving as may at once.
  bool are_many_leaving() const;
  uint32_t free_slots() const { return free_slots_.count(); }
  /// Reads that could start now without evicting anything.
  uint32_t room() const {
    const uint32_t below_window = room_in_window();
    return free_slots() < below_window ? free_slots() : below_window;
  }
  /// The same, if there were slots for all of them.
  uint32_t room_in_window() const {
    return resident_ < resident_max_ ? resident_max_ - resident_ : 0;
  }
  void set_resident_max(uint32_t resident_max) { resident_max_ = resident_max; }

  /// Whether the window has room but no slot to read into. Only the eviction of chunks that hold a
  /// slot would help. Or whether no more chunks can leave before others have left.
  bool lacks_slot() const {
    return are_many_leaving() || (free_slots() == 0 && resident_ < resident_max_);
  }
  /// Whether the window lacks a slot and one is coming. It is worth waiting for, so nothing is
  /// evicted for it.
  bool is_slot_coming() const {
    return lacks_slot() && (are_slots_being_made_ || are_many_leaving());
  }
  /// Whether a read could start in the chunk's place, if the chunk went.
  bool leaves_room(ChunkId chunk) const { return !lacks_slot() || slot(chunk) != no_slot; }
  void expect_slots(bool are_being_made) { are_slots_being_made_ = are_being_made; }

  /// absent → reading. Requires room() > 0. Returns the slot to read into, which lies beside that
  /// of the chunk before or behind, if possible.
  SlotId start_read(ChunkId chunk);
  /// reading → ready.
  void finish_read(ChunkId chunk);
  /// ready → mapped. `keeps_slot`: the slot's memory went into the region with the bytes.
  void map(ChunkId chunk, bool keeps_slot);
  /// Neighbours that are mapped and kept their slots are about to leave together. This brings their
  /// slots side by side, next to free ones, in exchange with other mapped chunks: the memory of all
  /// these chunks lies in regions, and their slots are only places to come back to. Returns how
  /// many of the neighbours, from the first one on, now have slots side by side; at least one.
  uint32_t bring_together(ChunkId first, uint32_t count);
  /// mapped → ready: touching it will fault. Only for a chunk that kept its slot.
  void hide(ChunkId chunk);
  /// ready → leaving. The chunk has to have a slot.
  void begin_leaving(ChunkId chunk);
  /// leaving → ready: it was touched meanwhile, or could not be written.
  void stay(ChunkId chunk);
  /// ready, mapped or leaving → absent. The slot, if it has one, is free again.
  void release(ChunkId chunk);
  /// absent, reading or ready → failed. The slot, if it has one, is free again.
  void fail(ChunkId chunk);
  /// failed → absent, when the chunk's region is gone and its id is used again.
  void forget_failure(ChunkId chunk);

 private:
  struct Chunk {
    ChunkState state = ChunkState::absent;
    SlotId slot = no_slot;
  };
  SlotId choose_slot(ChunkId chunk) const;
  void give_back_slot(Chunk& chunk);
  bool are_exchangeable(SlotId first, uint32_t count) const;
  void exchange_slots(ChunkId a, ChunkId b);

  std::vector<Chunk> chunks_;
  std::vector<ChunkId> chunk_in_;  // by slot; no_chunk where there is none
  FreeSlots free_slots_;
  uint32_t resident_max_;
  uint32_t resident_ = 0;
  uint32_t reading_ = 0;
  uint32_t leaving_ = 0;
  bool are_slots_being_made_ = false;
};

}  // namespace weightpager::window
