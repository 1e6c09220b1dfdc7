// The doors to a userfaultfd, in one list. The pager goes through the first door that is open;
// `weightpager doctor` tries them all.
//
// The device /dev/userfaultfd is guarded by file permissions, and no system call filter looks at
// it. The system call for all faults is for privileged users, or for everybody where
// vm.unprivileged_userfaultfd is 1. The system call for faults of user mode only is for everybody,
// unless a seccomp filter refuses it. A sandbox may leave any one of them open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weightpager::fault {

/// In the order of what they allow.
enum class Door { device, system_call, user_mode_only };
inline constexpr std::array doors = {Door::device, Door::system_call, Door::user_mode_only};

inline constexpr const char* device_path = "/dev/userfaultfd";

/// False: through this door faults inside system calls are not served (EFAULT there).
constexpr bool serves_all_faults(Door door) { return door != Door::user_mode_only; }

/// Opens a descriptor, close-on-exec and non-blocking, before its handshake (UFFDIO_API). The
/// caller closes it. Returns -1, and errno says why, if the door is shut.
int open_door(Door door);

/// The kernel's UFFD_FEATURE_ bits; 0 if the door is shut. A descriptor takes one handshake only,
/// so the question goes through a descriptor of its own.
uint64_t features_behind(Door door);

}  // namespace weightpager::fault
