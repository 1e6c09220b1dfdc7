// The files that a pager serves, the regions that show them, and whose each chunk is.
//
// Problem. A fault brings an address, a read and a policy bring a chunk; both are to be found at
// once, among a thousand regions of an engine with many small mappings.
//
// Idea. Regions are sorted by address space and address; chunks have numbers, a row of them for
// each file, that are used again when a file is gone.
//
// Cost: a binary search an address, a look into an array a chunk. Used by the pager's thread only;
// what adds or drops something may allocate, what finds something does not.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pager/loop/served_file.h"
#include "pager/profiles/stored_access_profile.h"
#include "pager/window/address_space.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

class ServedFiles {
 public:
  explicit ServedFiles(window::ChunkTable& table) : table_(table) {}

  const std::vector<std::unique_ptr<ServedFile>>& files() const { return files_; }
  /// Sorted by address space and address.
  const std::vector<ServedRegion>& regions() const { return regions_; }

  /// Takes the file in, and gives its chunks their numbers.
  ServedFile& add(std::unique_ptr<ServedFile> served);
  /// The file of the chunk. Requires has_owner(chunk).
  ServedFile& owner(window::ChunkId chunk) const { return *owners_[chunk]; }
  bool has_owner(window::ChunkId chunk) const {
    return chunk < owners_.size() && owners_[chunk] != nullptr;
  }
  /// Model files, which a later run can know again.
  std::vector<profiles::NumberedFile> numbered() const;
  std::vector<profiles::ProfiledFile> profiled() const;

  void add_region(ServedFile& served, std::unique_ptr<window::Region> region);
  /// The region that has the address among its live pages; {} if there is none.
  ServedRegion find(const window::AddressSpace& space, uintptr_t address) const;
  /// This process's region that begins at the address, the newest one; {} if there is none.
  ServedRegion beginning_at(const std::byte* address) const;
  bool is_any_writable() const;

  /// Requires that no region is left.
  void close() { files_.clear(); }

  /// Forgets regions without a page of the pager's or of the engine's own.
  void drop_unused_regions();
  /// Forgets files that nobody shows and that are not kept, as soon as no read needs them.
  void drop_unused_files();

 private:
  window::ChunkId take_chunk_ids(uint32_t count);
  bool is_in_use(const ServedFile& served) const;

  window::ChunkTable& table_;
  std::vector<std::unique_ptr<ServedFile>> files_;
  std::vector<ServedRegion> regions_;
  std::vector<ServedFile*> owners_;  // by chunk; nullptr: the number is unused
};

/// Whether the file may have other bytes than at the last look. Nobody who maps the file from now
/// on is shown what was read of it before.
bool look_at(ServedFile& served);

/// Opens the copies. One that cannot be had is a notice, and so is a change of it or of the file
/// since the check.
void open_copies(ServedFile& served, const std::vector<io::CheckedCopy>& copies);

/// Tells that chunks of the file are stale, by one line, however often the file is changed.
void tell_change(ServedFile& served);

}  // namespace weightpager
