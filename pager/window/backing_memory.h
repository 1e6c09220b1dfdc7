// The memory behind the window: how a chunk gets memory, comes into the engine's sight, leaves it,
// and gives its memory back.
//
// Problem. Kernels differ in what they can do with a page that a thread waits for. Models are shown
// in different places: in one engine, in several processes, on a GPU. The pager's loop shall not
// care.
//
// Idea. One interface with an implementation for each kind, which --mapper chooses:
//
//     move      moved_memory.h   slots whose pages are moved into the one region that shows them
//     copy      slot_memory.h    slots that regions get a copy of
//     collapse  shared_memory.h  a file in memory that regions of any process are views of
//     module    module_memory.h  the same in the hands of the kernel module (kmod/)
//
// mixed_memory.h joins two of them: views for files, and slots for the engine's own memory.
//
// For each chunk the loop gets memory (`bytes_of`), reads into it (`finish_read`), shows the chunk
// (`show`), perhaps hides it (`hide`), and gives its memory back (`evict`, `release`). A chunk that
// cannot be read is failed (`fail_chunk`) and sealed (`seal`). Each implementation updates the
// chunk table (chunk_table.h) at each step, so that a state never changes without the memory.
//
// The loop asks no memory what kind it is, so a new kind only has to implement this interface.
//
// Cost: a virtual call a step. Only functions that say so allocate. Used by the pager's thread
// only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "pager/fault/doorbell.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/address_space.h"
#include "pager/window/chunk_table.h"
#include "pager/window/region.h"
#include "pager/window/run.h"
#include "pager/window/shown_file.h"

namespace weightpager::window {

struct BackingOptions {
  /// Slots of the window at the start. A window that grows later gets its memory while the engine
  /// computes.
  uint32_t slots = 0;
  /// Slots of the largest window.
  uint32_t slots_max = 0;
  uint64_t chunk_bytes = chunk_bytes_max;
  /// Views that the engine may write to are hidden, too, where the kernel can hold up writes
  /// meanwhile: some 30 µs each time. Without this their touches are seen again only after
  /// eviction.
  bool hides_writable = false;
  /// Regions of spilled memory (Extent::is_spilled) will be reserved, too.
  bool spills = false;
  /// Called on other threads before they get memory for some slots, with the first of these slots:
  /// for tests of memory that comes slowly.
  std::function<void(SlotId)> before_memory;
};

/// What a backing memory works with. All parts outlive the memory, except that `own` may be gone
/// when the memory is destroyed.
struct BackingParts {
  AddressSpace& own;
  ChunkTable& table;
  /// Rung by threads that make memory.
  fault::Doorbell& doorbell;
};

/// A touch that the memory itself reports: somebody waits for a page.
struct MemoryTouch {
  const ShownFile* file = nullptr;
  ChunkId chunk = no_chunk;
  uint64_t offset_bytes = 0;  // in the file
  uint32_t thread_id = 0;
};

/// What the kernel counts as this process's memory.
struct ProcessMemory {
  uint64_t anonymous_bytes = 0;
  uint64_t file_bytes = 0;
};

class BackingMemory {
 public:
  virtual ~BackingMemory() = default;
  BackingMemory(const BackingMemory&) = delete;
  BackingMemory& operator=(const BackingMemory&) = delete;

  /// One of mapper_names.
  virtual const char* name() const = 0;

  // ---- Files and regions. May allocate. ----

  /// Fails where writes into a writable region of `file_name` could not be told from reads.
  virtual Status check_writable(const std::string& file_name) const = 0;
  /// Makes what a file needs before its first region; sets file.backing where regions are views.
  virtual Status add_file(ShownFile&) { return {}; }
  /// Reserves a region in this process, whose faults come through this process's userfaultfd.
  virtual Result<std::unique_ptr<Region>> reserve(const ShownFile& file, const Extent& extent) = 0;
  /// A region has been reserved, here or by a guest, and will be shown from now on.
  virtual void on_region_added(const ShownFile&, const Region&) {}

  // ---- Get: slots, and the memory that a chunk is read into. ----

  /// Adds slots to the table once their memory has come. If `is_in_use`, asks for more where the
  /// window has room for them. Returns how many chunks the window may have now; 0: as many as
  /// before.
  virtual uint32_t supply_slots(uint32_t window_chunks, bool is_in_use);
  /// Only asks for more slots. Returns the same as supply_slots().
  virtual uint32_t ask_for_slots(uint32_t window_chunks);
  /// Whether the whole window has its memory; asks for the rest otherwise.
  virtual bool get_all_memory(uint32_t) { return true; }
  /// Takes free slots beyond the window away, and gives their memory back.
  void trim_slots(uint32_t window_chunks);
  /// The largest window there can be: less than asked for where address space is short.
  uint32_t slots_max() const { return slots_max_; }
  /// Whether chunks are read into slots that they do not stay in: the window then keeps some free.
  virtual bool needs_staging(bool is_any_region_writable) const = 0;

  /// A chunk has just been given a slot, and is about to be read into. `is_memory_new`: so many
  /// chunks were never in use before, so that getting memory may take long. Returns whether it is
  /// worth while to have another thread write to the chunk's bytes first, as that gets the memory.
  virtual bool prepare_slot(const ShownFile&, ChunkId, bool /*is_memory_new*/) { return false; }
  /// Gets that memory now, if it lies in the chunk's slot and has not come, and waits for it.
  virtual void get_memory(const ShownFile&, ChunkId) {}
  /// Where a chunk that has a slot is read to. Neighbours in a file may lie beside each other.
  virtual std::byte* bytes_of(const ShownFile& file, ChunkId chunk) const = 0;
  /// The chunk's bytes have all arrived; the caller tells the table.
  virtual void finish_read(const ShownFile&, ChunkId) {}

  // ---- Show: ready → mapped, where threads wait for the chunk or will touch it next. ----

  /// Shows the chunk, and wakes the threads that wait where it is shown. `is_waited_for`: a thread
  /// waits for the chunk. `is_retry`: the last answer was `busy`. Answers `busy` if the chunk
  /// cannot be shown now, or not before it has been touched once more. The chunk may then be ready
  /// or, if it has to be read once more, absent.
  virtual fault::Outcome show(const ShownFile& file, ChunkId chunk, bool is_waited_for,
                              bool is_retry) = 0;
  /// Shows a whole run of ready chunks in one step. Returns false if that is not possible; then
  /// nothing has happened.
  virtual bool show_together(const ShownFile&, const Run&) { return false; }
  /// Whether a message of a write means that the chunk becomes the engine's own. In a view it only
  /// comes from a write that was held up for a moment.
  virtual bool tells_writes() const { return true; }
  /// A thread faulted at a page of a chunk that is shown in this region. Returns true if the page
  /// is there again and the thread goes on, false if the page was taken away to notice this touch.
  virtual bool answer_shown(Region& region, uint32_t index, uintptr_t address) = 0;

  // ---- Hide: mapped → ready, so that the next touch is noticed. ----

  /// Whether `hide` can work at all.
  virtual bool can_hide() const { return true; }
  /// `is_used_whole`: each use of the chunk reads all of it, so that one page tells the use.
  /// Returns false if the chunk cannot be hidden now; it is mapped as before (in shared memory,
  /// perhaps in fewer regions).
  virtual bool hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) = 0;
  /// Takes away the pages that `hide` chose one by one, all together.
  virtual void flush_hidden() {}
  /// A chunk is about to lose pages of a region, or their protection is about to change. Bytes that
  /// were moved into the region come back to the chunk's slot, even if somebody pins the pages.
  virtual void leave_region(const ShownFile&, Region&, uint32_t) {}

  // ---- Evict: ready or mapped → absent. ----

  /// Takes chunks of a run out of every region and gives their memory back: from the first one on,
  /// as many as go in one step. Returns how many went; 0 if the first one cannot go now.
  virtual uint32_t evict(const ShownFile& file, const Run& run) = 0;
  /// The same for a chunk that no region shows any more.
  void release(const ShownFile& file, ChunkId chunk);

  /// Whether what the engine writes in a region is in the chunk's slot when the chunk is hidden, so
  /// that regions of spilled memory (Extent::is_spilled) can be served.
  virtual bool can_spill() const { return false; }

  // ---- Fail and seal: touching the chunk is SIGBUS. ----

  /// absent, reading, ready or mapped → failed. If the chunk has failed before, threads that wait
  /// for it are told so.
  virtual void fail_chunk(const ShownFile& file, ChunkId chunk);
  /// From now on each touch in the range of the region raises SIGBUS, except of pages that the
  /// engine wrote. Wakes the threads that wait there.
  virtual void seal(const Region& region, std::byte* address, uint64_t length_bytes) = 0;

  // ---- What the engine wrote, in writable regions. ----

  /// Frees what the engine wrote in pages of a chunk, so that they show the file again. Returns
  /// true if those pages were the engine's own, and all of the chunk is absent in this region now.
  virtual bool discard_written(Region& region, uint32_t index, uint32_t first_page,
                               uint32_t count) = 0;
  /// Calls `act(address, length_bytes)` for each run of pages of a chunk that the engine wrote, and
  /// lets child processes inherit these pages.
  using Act = std::function<void(std::byte* address, uint64_t length_bytes)>;
  virtual void for_each_written_run(const Region& region, uint32_t index, const Act& act) = 0;

  // ---- For the loop's thread. ----

  /// What `next_touch` reads from; -1: touches come by userfaultfds alone.
  virtual int touch_fd() const { return -1; }
  virtual std::optional<MemoryTouch> next_touch() { return {}; }
  /// The process's memory without the window, in bytes: what the engine has on its own.
  virtual uint64_t engine_bytes(const ProcessMemory& all, uint32_t window_chunks) const = 0;

 protected:
  friend class MixedMemory;  // gives memory back for the two kinds that it joins
  BackingMemory(const BackingOptions& options, const BackingParts& parts);

  /// A chunk's memory leaves every region, and goes back to the kernel or into the chunk's slot.
  virtual void give_back(const ShownFile&, ChunkId) {}
  /// A slot leaves the window: its memory goes back to the kernel.
  virtual void empty_slot(SlotId) {}

  const uint64_t chunk_bytes_;
  AddressSpace& own_;
  ChunkTable& table_;
  fault::Doorbell& doorbell_;
  uint32_t slots_max_;
  uint32_t slots_added_ = 0;           // slots [0, slots_added_) have been in the table
  std::vector<SlotId> emptied_slots_;  // of these, those that trim_slots took away
};

inline constexpr std::array mapper_names = {"auto", "move", "collapse", "copy", "module"};
bool is_mapper_name(std::string_view name);
/// The best mapper whose memory other processes can show.
const char* shared_mapper_name();

/// Returns the mapper `name`, one of mapper_names, if it works here. For "auto" it returns the best
/// mapper that works here; `expects_writable`: regions will be writable, and chunks are not moved
/// into those. Tries mappers with real memory of `space`, which is this process's. An explicit
/// mapper that does not work is an error, and is never replaced in silence. `spills`: spilled
/// memory will be served, too, which the mapper has to be able to.
Result<std::string_view> choose_mapper(std::string_view name, AddressSpace& space,
                                       uint64_t chunk_bytes, bool expects_writable = false,
                                       bool spills = false);

/// `name`: what choose_mapper() returned.
Result<std::unique_ptr<BackingMemory>> open_backing_memory(std::string_view name,
                                                           const BackingOptions& options,
                                                           const BackingParts& parts);

}  // namespace weightpager::window
