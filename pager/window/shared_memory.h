// A model's chunks in memory that several address spaces can show: a file without a name, as long
// as the model, in which only resident chunks have pages.
//
// Byte k of the model lies at byte k of this memory, so a mapping of the model becomes a mapping of
// the memory ("view") with the same offset. The owner reads chunks into a mapping that nobody
// watches. Giving a chunk's pages back takes them out of every view of every process at once, and
// leaves alone what somebody wrote into a private view: the kernel copied that page before.
//
// With the right to make a filesystem of its own (CAP_SYS_ADMIN) the file lies in one that is made
// of huge pages and is mounted nowhere; otherwise, or where a chunk is smaller than a huge page and
// could not be given back without splitting one, in a memfd, of small pages. (These could be
// collapsed once they are filled, which is to copy them. Before they are filled the kernel refuses,
// with reason: it would fill holes for which somebody waits for a fault.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pager/base/result.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/free_slots.h"

namespace weightpager::window {

class SharedMemory {
 public:
  /// `length_bytes` of memory, in whole chunks, without a page so far. (Memory of the kernel
  /// module's is made by window/module_window.h.)
  static Result<std::unique_ptr<SharedMemory>> create(uint64_t length_bytes, uint64_t chunk_bytes);
  virtual ~SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Where the owner reads a chunk's bytes to; `slot` is the chunk's permit.
  virtual std::byte* at(uint64_t offset_bytes, SlotId slot) const = 0;
  /// The chunk is complete, and the owner will not come back to it: only views show it now, so that
  /// it counts once as this process's memory.
  virtual void finish_chunk(uint64_t offset_bytes) const = 0;
  /// Takes the chunk's pages out of every view and gives them back.
  virtual void give_back_chunk(uint64_t offset_bytes) = 0;

  /// Opened for reading only: enough for views, and not for changing the memory.
  virtual int view_fd() const = 0;
  virtual bool has_huge_pages() const { return false; }

  // Memory that has its own say in what views show (the kernel module's). Of any other, views are
  // shown and hidden one by one, by a mapper, and who touches what is absent is told by
  // userfaultfd.
  virtual bool shows_chunks() const { return false; }
  /// In every view, known or not. Who waits for the chunk goes on.
  virtual fault::Outcome show_chunk(uint64_t, SlotId) { return fault::Outcome::done; }
  /// From every view, in one step; the bytes stay.
  virtual void hide_chunks(uint64_t, uint32_t) {}
  /// Touching the chunk is SIGBUS until it is shown or given back, and who waits for it gets that.
  virtual void fail_chunk(uint64_t) {}

 protected:
  SharedMemory() = default;
};

}  // namespace weightpager::window
