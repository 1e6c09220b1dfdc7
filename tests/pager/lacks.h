// What a pager needs of the kernel, and a pager where that is there.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "pager/fault/userfaultfd_abi.h"
#include "pager/fault/userfaultfd_doors.h"
#include "pager/pager.h"
#include "pager/window/module_window.h"
#include "tests/base/lacks.h"

namespace weightpager {

/// What an open userfaultfd can do; nothing where all its doors are shut.
inline std::optional<uint64_t> userfaultfd_features() {
  for (const fault::Door door : fault::doors) {
    const int fd = fault::open_door(door);
    if (fd < 0) continue;
    ::close(fd);
    return fault::features_behind(door);
  }
  return std::nullopt;
}

inline Lack lack_of_userfaultfd(uint64_t features = 0, const char* what_is_lacking = "") {
  const std::optional<uint64_t> found = userfaultfd_features();
  if (!found) return "no userfaultfd: 'weightpager doctor' says why";
  return lack_unless((*found & features) == features, what_is_lacking);
}

/// `mapper`: one of window::mapper_names.
inline Lack lack_for_mapper(std::string_view mapper) {
  if (mapper == "move") {
    return lack_of_userfaultfd(UFFD_FEATURE_MOVE, "no UFFDIO_MOVE (Linux 6.8 has it)");
  }
  if (mapper == "collapse") {
    return lack_of_userfaultfd(UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM,
                               "no userfaultfd for shared memory (Linux 5.14 has it)");
  }
  if (mapper == "module" && ::access(window::module_device_path, R_OK | W_OK) != 0) {
    return "weightpager.ko is not loaded, or not for this user";
  }
  return lack_of_userfaultfd();
}

/// A pager where none is lacking. Throws where it does not start: GoogleTest makes that a failure,
/// in whichever function it happens.
inline std::unique_ptr<Pager> started(const PagerOptions& options) {
  auto pager = Pager::start(options);
  if (!pager) throw std::runtime_error("the pager does not start: " + pager.error().message);
  return std::move(*pager);
}

}  // namespace weightpager
