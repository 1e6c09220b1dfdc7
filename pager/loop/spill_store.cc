#include "pager/loop/spill_store.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

#include "pager/base/units.h"
#include "pager/io/file_identity.h"

namespace weightpager {

using spill::Home;

Status SpillStore::open(const std::string& folder, uint64_t chunk_bytes) {
  auto file = spill::SpillFile::create(folder, chunk_bytes);
  if (!file) return forward_error(std::move(file));
  folder_ = folder;
  spill_file_.emplace(std::move(*file));
  return {};
}

void SpillStore::close() {
  kept_.close();
  spill_file_.reset();
  files_.clear();
}

Result<uint32_t> SpillStore::add_file(const std::string& link, const io::FileIdentity& identity,
                                      const std::string& name) {
  for (uint32_t number = 0; number < files_.size(); ++number) {
    if (files_[number].file.identity().holds_until(identity)) return number;
  }
  auto file = io::ModelFile::open(link, identity, name);
  if (!file) return forward_error(std::move(file));
  files_.push_back({.file = std::move(*file), .name = name});
  return static_cast<uint32_t>(files_.size() - 1);
}

bool SpillStore::is_unchanged(uint32_t number) const {
  const io::ModelFile& file = files_[number].file;
  const auto now = io::identity_of(file.fd());
  return now && file.identity().is_settled && !file.identity().was_written_until(*now);
}

bool SpillStore::is_home_unchanged(const spill::SpilledChunks& chunks, uint32_t chunk) const {
  switch (chunks.home(chunk)) {
    case Home::file:
      return is_unchanged(chunks.file(chunk));
    case Home::kept:
      return kept_.is_unchanged(chunks.file(chunk));
    case Home::zeros:
    case Home::spill_file:
      break;
  }
  return true;
}

ReadPlace SpillStore::home_of(const spill::SpilledChunks& chunks, uint32_t chunk) const {
  const uint64_t offset_bytes = chunks.offset_bytes(chunk);
  if (chunks.home(chunk) == Home::spill_file) {
    return {.fd = spill_file_->fd(),
            .offset_bytes = offset_bytes,
            .alignment_bytes = os_page_bytes,
            .is_direct = spill_file_->is_direct()};
  }
  if (chunks.home(chunk) == Home::kept) {
    return {.fd = kept_.fd(chunks.file(chunk)),
            .offset_bytes = offset_bytes,
            .alignment_bytes = os_page_bytes,
            .is_direct = kept_.is_direct(chunks.file(chunk))};
  }
  const io::ModelFile& file = files_[chunks.file(chunk)].file;
  return {.fd = file.fd(),
          .offset_bytes = offset_bytes,
          .alignment_bytes = file.alignment_bytes(),
          .is_direct = file.is_direct()};
}

void SpillStore::describe_loss(const spill::SpilledChunks& chunks, uint32_t chunk,
                               std::span<char> text) const {
  if (chunks.home(chunk) == Home::spill_file) {
    std::snprintf(text.data(), text.size(),
                  "reading it back from the spill file in %s failed (see `dmesg`)",
                  folder_.c_str());
    return;
  }
  if (chunks.home(chunk) == Home::kept) {
    std::snprintf(
        text.data(), text.size(),
        "reading it back from what is kept in %s failed (see `dmesg`), or that was changed",
        kept_.folder().c_str());
    return;
  }
  const uint32_t number = chunks.file(chunk);
  const uint64_t offset_bytes = chunks.offset_bytes(chunk);
  std::snprintf(text.data(), text.size(),
                "bytes %" PRIu64 " to %" PRIu64 " of %s, which it was read from, %s", offset_bytes,
                offset_bytes + spill_file_->place_bytes(), files_[number].name.c_str(),
                is_unchanged(number) ? "cannot be read (see `dmesg`)" : "were changed since");
}

}  // namespace weightpager
