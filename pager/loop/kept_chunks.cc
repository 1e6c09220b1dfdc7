#include "pager/loop/kept_chunks.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

using spill::ContentHash;
using spill::KeptPlace;

// More is never in flight than leaves at once.
static_assert(window::ChunkTable::leaving_max <= KeptWorker::comparisons_max);

namespace {

// What is kept though nobody uses it, beside as much as was in use at most.
constexpr uint64_t unused_bytes_more = 64 * MiB;

}  // namespace

Status KeptChunks::open(const std::string& folder, uint64_t chunk_bytes) {
  auto kept = spill::open_kept_folder(folder, chunk_bytes);
  if (!kept) return forward_error(std::move(kept));
  if (auto opened = worker_.open(); !opened) return opened;
  for (const std::string& it : kept->notices) notice(it);
  folder_ = folder;
  chunk_bytes_ = chunk_bytes;
  index_.emplace(chunk_bytes);
  for (uint32_t i = 0; i < kept->earlier.size(); ++i) {
    spill::EarlierKept& earlier = kept->earlier[i];
    const auto identity = io::identity_of(earlier.chunks.get());
    identities_.push_back(identity.value_or(io::FileIdentity{}));
    if (!identity) earlier.records = {};
    for (const spill::KeptRecord& it : earlier.records)
      index_->add_earlier(it.hash, {i + 1, it.place * chunk_bytes});
    earlier.records = {};
  }
  is_use_noted_.resize(kept->earlier.size() + 1);
  kept_.emplace(std::move(*kept));
  return {};
}

void KeptChunks::close() {
  worker_.close();
  if (!kept_) return;
  kept_->own.shrink();
  if (index_->used() + index_->unused() == 0) spill::remove_kept(kept_->own_index_path);
  kept_.reset();
  index_.reset();
  identities_.clear();
}

// ---- What is there ----

std::optional<KeptPlace> KeptChunks::compare(window::ChunkId chunk, const std::byte* bytes,
                                             const ContentHash& hash) {
  const auto place = kept_ ? index_->find(hash) : std::nullopt;
  if (!place) return std::nullopt;
  index_->begin_use(*place);
  worker_.compare({.chunk = chunk,
                   .bytes = bytes,
                   .length_bytes = chunk_bytes_,
                   .fd = fd(place->file),
                   .offset_bytes = place->offset_bytes,
                   .is_direct = is_direct(place->file)});
  return place;
}

void KeptChunks::distrust(const ContentHash& hash, const KeptPlace& place, int error_number) {
  index_->distrust(hash, place);
  if (std::exchange(has_told_of_damage_, true)) return;
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s: a kept chunk %s%s; it and others like it are written anew, and nothing of "
                "them is shown",
                folder_.c_str(),
                error_number == 0 ? "is not what its index says, or its file is being changed: a "
                                    "run or the machine ended while it was written, the disk is "
                                    "damaged, or a program writes there"
                                  : "cannot be read: ",
                error_number == 0 ? "" : std::strerror(error_number));
  notice(text);
}

void KeptChunks::note_home(const KeptPlace& place) {
  if (place.file == 0 || is_use_noted_[place.file]) return;
  is_use_noted_[place.file] = true;
  worker_.note({.used_index = &kept_->earlier[place.file - 1].index_path});
}

void KeptChunks::end_use(const KeptPlace& place, bool is_worth_keeping) {
  if (!index_->end_use(place, is_worth_keeping)) return;
  note_record(place.offset_bytes / chunk_bytes_, {});
  kept_->own.give_place(place.offset_bytes);
}

// ---- This run's own ----

std::optional<uint64_t> KeptChunks::take_place() {
  if (!kept_ || is_own_given_up_) return std::nullopt;
  while (index_->unused() * chunk_bytes_ > index_->used_max() * chunk_bytes_ + unused_bytes_more)
    free_unused();
  const bool is_full = kept_->own.reserved_bytes() + chunk_bytes_ > kept_->own_bytes_max;
  if (may_grow_ && !is_full) {
    if (const auto place = kept_->own.take_place()) return place;
    may_grow_ = false;
  }
  if (const auto place = take_spare_place()) return place;
  tell_once_no_more(may_grow_ ? "half of the disk's room is taken by what is kept"
                              : std::strerror(kept_->own.last_error()));
  return std::nullopt;
}

std::optional<uint64_t> KeptChunks::take_spare_place() {
  if (!kept_ || is_own_given_up_) return std::nullopt;
  while (!kept_->own.has_free_place() && index_->unused() > 0) free_unused();
  return kept_->own.has_free_place() ? kept_->own.take_place() : std::nullopt;
}

void KeptChunks::free_unused() {
  const auto offset_bytes = index_->take_unused();
  WP_ASSERT(offset_bytes.has_value());
  note_record(*offset_bytes / chunk_bytes_, {});
  kept_->own.give_place(*offset_bytes);
}

void KeptChunks::give_up_own() {
  is_own_given_up_ = true;
  tell_once_no_more("a write failed (see `dmesg`)");
}

void KeptChunks::tell_once_no_more(const char* why) {
  if (std::exchange(has_told_of_no_more_, true)) return;
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s: no more of the engine's memory is kept: %s. The rest goes to the spill file, "
                "and is written again by the next run. Free some room (see `df`), or name another "
                "folder: --keep-copies DIR",
                folder_.c_str(), why);
  notice(text);
}

void KeptChunks::add(uint64_t offset_bytes, const ContentHash& hash) {
  const uint64_t place = offset_bytes / chunk_bytes_;
  if (index_->add_own(hash, offset_bytes)) note_record(place, spill::kept_record({place, hash}));
}

void KeptChunks::note_record(uint64_t place, const spill::KeptRecordBytes& record) {
  worker_.note({.index_fd = kept_->own_index.get(),
                .offset_bytes = spill::kept_record_offset(place),
                .record = record});
}

bool KeptChunks::is_unchanged(uint32_t file) const {
  if (file == 0) return true;
  const auto now = io::identity_of(fd(file));
  return now && !identities_[file - 1].was_written_until(*now);
}

}  // namespace weightpager
