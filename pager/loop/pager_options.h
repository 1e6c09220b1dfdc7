// How a pager is started, and the limits that hold for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"
#include "pager/policy/named/make_policy.h"
#include "pager/profiles/access_profile_record.h"
#include "pager/shadow/judge.h"
#include "pager/telemetry/telemetry.h"
#include "pager/telemetry/touch_record.h"
#include "pager/window/free_slots.h"

namespace weightpager {

/// The smallest window that still lets a few threads read and a ring turn.
inline constexpr uint64_t window_bytes_min = 32 * MiB;
/// What one process may have mapped at once.
inline constexpr size_t regions_max = 1024;

/// Memory limits and files are looked at as often.
inline constexpr uint64_t look_interval_ns = 50'000'000;

struct PagerOptions {
  uint64_t window_bytes = 0;
  /// How large resize() may make it; 0: no larger than window_bytes.
  uint64_t window_bytes_max = 0;
  /// Other processes attach to this pager (pager/attach). Requires the mapper "collapse" or
  /// "module", and a process in which nobody closes descriptors that are not his.
  bool serves_guests = false;
  /// Shrink the window before the memory limit is reached (window/memory_headroom.h).
  bool follows_memory_limit = false;
  /// One of window::mapper_names.
  std::string mapper = "auto";
  /// One that check_policy() finds fit to be used live.
  std::string policy{policy::adaptive_policy};
  /// What "auto" is chosen for: regions that are writable, or those that are not.
  bool expects_writable = false;
  /// Of all regions; see policy/chunk_size.h.
  uint64_t chunk_bytes = chunk_bytes_max;
  /// What the device under the models likes, or those under the models and their copies together
  /// (io::device_limits).
  io::DeviceLimits device;
  /// The window has all its memory before anything is served, so that what is measured does not
  /// wait for the kernel to hand it out. (Not memory that is shared, which comes as it is read
  /// into.)
  bool gets_memory_first = false;
  /// The folder of the spill file (spill/spill_file.h); "": no memory of the engine's own can be
  /// served. Not with the mapper "copy".
  std::string spill_folder;
  /// The folder of chunks that outlive the run (spill/kept_folder.h); "": none does. Requires
  /// spill_folder.
  std::string kept_folder;
  /// What reads, where it shall be neither io_uring nor pread: tests of disks that go wrong. Called
  /// once, by the pager's thread.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
  /// Called on other threads before they get memory for some slots: tests of memory that comes
  /// slowly (window/slot_pool.h).
  std::function<void(window::SlotId)> before_memory;
  /// Who compares policies while the adaptive one is in use, on a thread of its own: tests know the
  /// verdict beforehand.
  shadow::Judge judge = shadow::judge;
  /// Where the counters go; not owned, outlives the pager.
  telemetry::Telemetry* telemetry = nullptr;
  /// Where every touch is written down, for a trace; not owned, outlives the pager. Chunks are then
  /// only shown when they are touched, and taken away again, with their bytes kept, when enough
  /// others were touched since: touching them costs a fault each time. nullptr: no record.
  telemetry::TouchRecord* touch_record = nullptr;
  /// Where access profiles of earlier runs are kept (profiles/access_profile_directory.h); "":
  /// nowhere.
  std::string access_profile_directory;
  /// Where this run's access profile goes; not owned, outlives the pager. nullptr: nowhere.
  profiles::AccessProfileRecord* access_profile_record = nullptr;
};

}  // namespace weightpager
