// Memory that several address spaces can show: a file without a name, as long as the model, in
// which only resident chunks have pages.
//
// Byte k of the model lies at byte k of this memory, so a mapping of the model becomes a mapping of
// the memory ("view") with the same offset. The owner reads chunks into a mapping that no
// userfaultfd watches. Giving a chunk's pages back takes them out of every view of every process at
// once. Pages that somebody wrote in a private view stay, because the kernel had copied them.
//
// With the right to make a filesystem of its own (CAP_SYS_ADMIN) the file lies in one that is made
// of huge pages and is mounted nowhere. Otherwise the file is a memfd of small pages, also where a
// chunk is smaller than a huge page and could not be given back without splitting one. (Small pages
// could be collapsed once they are filled, but that copies them. Before they are filled the kernel
// refuses, with reason: it would fill holes for which somebody waits for a fault.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/window/shown_file.h"

namespace weightpager::window {

/// The memory of one model file. Used by the pager's thread only; only `create` allocates.
class MemoryFile final : public FileBacking {
 public:
  /// Makes `length_bytes` of memory, in whole chunks, without a page so far.
  static Result<std::unique_ptr<MemoryFile>> create(uint64_t length_bytes, uint64_t chunk_bytes);
  ~MemoryFile() override;

  /// Where the owner reads a chunk's bytes to.
  std::byte* at(uint64_t offset_bytes) const { return base_ + offset_bytes; }
  /// The chunk is complete, and the owner will not come back to it. The owner's mapping drops the
  /// chunk, so that only views show it, and it counts once as this process's memory.
  void finish_chunk(uint64_t offset_bytes) const;
  /// Takes the pages of whole chunks out of every view and gives them back.
  void give_back(uint64_t offset_bytes, uint64_t length_bytes) const;

  /// Opened for reading only: enough for views, and not for changing the memory.
  int view_fd() const override { return view_.get(); }
  bool has_huge_pages() const { return has_huge_pages_; }

 private:
  explicit MemoryFile(uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  const uint64_t chunk_bytes_;
  OwnedFd file_;
  OwnedFd view_;
  std::byte* base_ = nullptr;  // on the 2 MiB grid
  void* reservation_ = nullptr;
  uint64_t length_bytes_ = 0;
  bool has_huge_pages_ = false;
};

}  // namespace weightpager::window
