// The window in the kernel module's hands (kmod/), where /dev/weightpager is. Slots are the
// module's memory, and regions are views of the module's files. Engines, system calls and GPUs wait
// when they touch an absent chunk of such a file.
//
// The pager reads into slots through one mapping, which stays. One ioctl changes what views show,
// for a run of chunks and in all processes at once. Touches come through a ring that is shared with
// the kernel. Cost: an ioctl per run, and nothing is copied, zeroed or registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/free_slots.h"

struct wp_ring;

namespace weightpager::window {

inline constexpr const char* module_device_path = "/dev/weightpager";

/// The module's file for one model file; regions are views of it.
struct ModuleFile {
  uint32_t number = 0;
  OwnedFd view;
};

class ModuleWindow {
 public:
  /// Makes a window of `slots` slots, without memory so far. Fails where the module is not loaded,
  /// or not for this user.
  static Result<std::unique_ptr<ModuleWindow>> create(uint32_t slots, uint64_t chunk_bytes);
  /// Threads that still wait get SIGBUS. Requires that the window's files are gone.
  ~ModuleWindow();
  ModuleWindow(const ModuleWindow&) = delete;
  ModuleWindow& operator=(const ModuleWindow&) = delete;

  /// Adds a file for a model of `chunks` chunks.
  Result<ModuleFile> add_file(uint32_t chunks);

  std::byte* slot_address(SlotId slot) const { return base_ + slot * chunk_bytes_; }
  /// A slot that shows no chunk gives its pages back, until it is read into again.
  void empty(SlotId slot) const;

  /// Shows a chunk's slot in every view. Threads that wait for the chunk go on.
  fault::Outcome show(uint32_t file, uint32_t chunk, SlotId slot) const;
  /// Takes chunks out of every view, in one step; the bytes stay.
  void hide(uint32_t file, uint32_t chunk, uint32_t count) const;
  /// The chunk shows no slot any more, and is not poisoned.
  void give_back(uint32_t file, uint32_t chunk) const;
  /// Touching the chunk is SIGBUS until it is shown or given back. Threads that wait for it get
  /// SIGBUS, too.
  void poison(uint32_t file, uint32_t chunk) const;

  /// A page that somebody waits for.
  struct Touch {
    uint32_t file = 0;
    uint64_t offset_bytes = 0;
    uint32_t thread_id = 0;
  };
  std::optional<Touch> next_touch();
  /// Readable while there are touches to take.
  int fd() const { return device_.get(); }

 private:
  explicit ModuleWindow(uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}
  int change(unsigned long command, uint32_t file, uint32_t chunk, SlotId slot,
             uint32_t count) const;

  const uint64_t chunk_bytes_;
  OwnedFd device_;
  wp_ring* ring_ = nullptr;
  uint64_t ring_bytes_ = 0;
  uint32_t events_ = 0;
  std::byte* base_ = nullptr;  // on the 2 MiB grid
  void* reservation_ = nullptr;
  uint64_t reservation_bytes_ = 0;
};

}  // namespace weightpager::window
