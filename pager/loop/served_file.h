// A model file that is being served: its chunks, the regions that show them (window/shown_file.h),
// and whether the file still is what was read of it. Or memory of the engine's own, which is served
// as a file is, and whose chunks each have a home of their own (spill/spilled_chunks.h).
//
// A file that is changed while it is served is served anew, as another one, to who maps it from
// then on: what was read before the change stays among those who mapped it before.
//
// Bookkeeping only; the pager's thread alone uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/io/drive_choice.h"
#include "pager/io/mirrors.h"
#include "pager/io/model_file.h"
#include "pager/loop/served_layers.h"
#include "pager/profiles/stored_access_profile.h"
#include "pager/spill/spilled_chunks.h"
#include "pager/window/region.h"
#include "pager/window/shown_file.h"

namespace weightpager {

/// A copy of a served file on another drive.
struct ServedCopy {
  io::CheckedCopy checked;
  io::ModelFile file;
  /// It is not what was checked any more. The file stays open: reads of it may be in flight.
  bool is_given_up = false;
};

struct ServedFile : window::ShownFile {
  explicit ServedFile(io::ModelFile opened) : file(std::move(opened)), seen(file.identity()) {
    size_bytes = file.size_bytes();
  }

  /// Memory of the engine's own, of this many chunks.
  ServedFile(uint64_t memory_bytes, spill::SpilledChunks content)
      : file(io::ModelFile::none()), spilled(std::move(content)) {
    size_bytes = memory_bytes;
  }

  /// Whether it is memory of the engine's own, and no file.
  bool is_spilled() const { return spilled.has_value(); }

  io::ModelFile file;
  std::optional<spill::SpilledChunks> spilled;
  std::string name;  // for messages
  std::shared_ptr<ServedLayers> layers;
  profiles::ProfiledFile profiled;  // what access profiles know it by
  /// Served to guests that come and go: chunks stay while nobody shows them.
  bool is_kept = false;
  io::FileIdentity seen;  // when it was looked at last
  /// The file was changed since it was opened: whoever maps it now gets it served anew.
  bool has_changed = false;
  bool is_written = false;  // its bytes, not only its names, rights or times
  bool is_change_told = false;
  /// Chunks that were read before the change shall go.
  bool has_stale_chunks = false;
  std::vector<ServedCopy> copies;

  /// The drives that have the file's bytes.
  io::DriveSet drives() const {
    io::DriveSet drives = io::drive_bit(0);
    for (const ServedCopy& it : copies) {
      if (!it.is_given_up) drives |= io::drive_bit(it.checked.drive);
    }
    return drives;
  }
  /// nullptr: there is none on that drive, or it is the file itself.
  ServedCopy* copy_on(uint32_t drive) {
    for (ServedCopy& it : copies) {
      if (it.checked.drive == drive) return &it;
    }
    return nullptr;
  }
  const io::ModelFile& file_on(uint32_t drive) {
    const ServedCopy* const copy = copy_on(drive);
    return copy == nullptr ? file : copy->file;
  }
  const std::string& name_on(uint32_t drive) {
    const ServedCopy* const copy = copy_on(drive);
    return copy == nullptr ? name : copy->checked.path;
  }

  /// Whether all that was read of it is what the file has, looked at as `now`.
  bool is_still(const io::FileIdentity& now) const {
    return !has_changed && file.identity().holds_until(now);
  }
};

/// A region, and the file that it shows.
struct ServedRegion {
  window::Region* region = nullptr;
  ServedFile* served = nullptr;

  /// By which regions are sorted.
  std::pair<const window::AddressSpace*, uintptr_t> key() const {
    return {&region->space(), reinterpret_cast<uintptr_t>(region->address())};
  }
};

}  // namespace weightpager
