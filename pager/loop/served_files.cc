#include "pager/loop/served_files.h"

#include <algorithm>
#include <utility>

#include "pager/base/log.h"

namespace weightpager {

using window::AddressSpace;
using window::ChunkId;
using window::ChunkState;
using window::Region;

ServedFile& ServedFiles::add(std::unique_ptr<ServedFile> served) {
  served->first_chunk = take_chunk_ids(served->chunks);
  for (uint32_t i = 0; i < served->chunks; ++i) owners_[served->first_chunk + i] = served.get();
  files_.push_back(std::move(served));
  return *files_.back();
}

// Numbers of a file that is gone are used again, if there are as many as needed in a row.
ChunkId ServedFiles::take_chunk_ids(uint32_t count) {
  uint32_t free_in_a_row = 0;
  for (ChunkId chunk = 0; count > 0 && chunk < owners_.size(); ++chunk) {
    const bool is_free = owners_[chunk] == nullptr && !table_.is_resident(chunk);
    free_in_a_row = is_free ? free_in_a_row + 1 : 0;
    if (free_in_a_row < count) continue;
    const ChunkId first = chunk + 1 - count;
    for (ChunkId c = first; c <= chunk; ++c) {
      if (table_.state(c) == ChunkState::failed) table_.forget_failure(c);
    }
    return first;
  }
  const ChunkId first = table_.add_chunks(count);
  owners_.resize(table_.chunks(), nullptr);
  return first;
}

std::vector<profiles::NumberedFile> ServedFiles::numbered() const {
  std::vector<profiles::NumberedFile> files;
  for (const auto& served : files_) {
    if (!served->is_spilled()) files.push_back({served->profiled, served->first_chunk});
  }
  return files;
}

std::vector<profiles::ProfiledFile> ServedFiles::profiled() const {
  std::vector<profiles::ProfiledFile> files;
  for (const auto& served : files_) {
    if (!served->is_spilled()) files.push_back(served->profiled);
  }
  return files;
}

void ServedFiles::add_region(ServedFile& served, std::unique_ptr<Region> region) {
  const ServedRegion added{region.get(), &served};
  served.regions.push_back(std::move(region));
  served.favoured = added.region;
  const auto behind = std::find_if(regions_.begin(), regions_.end(),
                                   [&](const ServedRegion& it) { return added.key() < it.key(); });
  regions_.insert(behind, added);
}

// A region may begin in a hole that was unmapped in another, so the nearest need not be the right
// one.
ServedRegion ServedFiles::find(const AddressSpace& space, uintptr_t address) const {
  auto it = std::upper_bound(
      regions_.begin(), regions_.end(), std::pair(&space, address),
      [](const auto& at, const ServedRegion& region) { return at < region.key(); });
  while (it != regions_.begin() && &(--it)->region->space() == &space) {
    if (it->region->contains(address) && it->region->is_live_at(address)) return *it;
  }
  return {};
}

ServedRegion ServedFiles::beginning_at(const std::byte* address) const {
  const auto found = std::find_if(regions_.rbegin(), regions_.rend(), [&](const ServedRegion& it) {
    return it.region->space().is_own() && it.region->address() == address;
  });
  return found == regions_.rend() ? ServedRegion{} : *found;
}

bool ServedFiles::is_any_writable() const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [](const ServedRegion& it) { return it.region->extent().is_writable; });
}

void ServedFiles::drop_unused_regions() {
  std::erase_if(regions_, [](const ServedRegion& it) { return !it.region->is_in_use(); });
  for (const auto& served : files_) {
    std::erase_if(served->regions, [&](const std::unique_ptr<Region>& region) {
      if (region->is_in_use()) return false;
      if (served->favoured == region.get()) served->favoured = nullptr;
      region->abandon();
      return true;
    });
  }
}

void ServedFiles::drop_unused_files() {
  std::erase_if(files_, [&](const std::unique_ptr<ServedFile>& served) {
    if (is_in_use(*served)) return false;
    for (uint32_t i = 0; i < served->chunks; ++i) owners_[served->first_chunk + i] = nullptr;
    return true;
  });
}

bool ServedFiles::is_in_use(const ServedFile& served) const {
  if (!served.regions.empty() || served.is_kept) return true;
  for (uint32_t i = 0; i < served.chunks; ++i) {
    const ChunkState state = table_.state(served.first_chunk + i);
    if (state == ChunkState::reading || state == ChunkState::leaving) return true;
  }
  return false;
}

bool look_at(ServedFile& served) {
  if (served.is_spilled()) return false;
  const auto now = io::identity_of(served.file.fd());
  if (!now || now->looks_like(served.seen)) return false;
  const bool is_stale = served.seen.may_have_other_bytes(*now);
  served.is_written = served.is_written || served.seen.was_written_until(*now);
  served.has_stale_chunks = served.has_stale_chunks || is_stale;
  served.seen = *now;
  served.has_changed = true;
  // They are copies of what it was.
  for (ServedCopy& it : served.copies) it.is_given_up = it.is_given_up || is_stale;
  return is_stale;
}

void open_copies(ServedFile& served, const std::vector<io::CheckedCopy>& copies) {
  for (const io::CheckedCopy& it : copies) {
    auto file = io::ModelFile::open(it.path);
    const bool are_same = file && it.identity.holds_until(file->identity()) &&
                          it.original.holds_until(served.file.identity());
    if (are_same) {
      served.copies.push_back({it, std::move(*file)});
      continue;
    }
    notice((file ? it.path + ": it or the file that it is a copy of was changed since the check"
                 : file.error().message) +
           "; " + served.name + " is read without it");
  }
}

void tell_change(ServedFile& served) {
  if (!served.has_stale_chunks || std::exchange(served.is_change_told, true)) return;
  notice(served.name +
         (served.is_written ? ": was changed while it was in use"
                            : ": its name, rights or times were changed while it was in use") +
         ". What is mapped from now on is read anew; older mappings show the new bytes as they are "
         "read again, as mmap's do. To keep the two apart, write a new file and rename it over the "
         "old one");
}

}  // namespace weightpager
