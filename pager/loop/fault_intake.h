// What the pager learns of the engine: who stands still at which chunk, and what was written.
//
// Faults come from the userfaultfd of an address space, touches of the kernel module's memory from
// the module. A ready chunk is shown at once; of any other the policy learns, and its toucher
// waits. Of chunks that are shown nobody sees a touch, unless they were hidden.
//
// Used by the pager's thread only; nothing here allocates.
#pragma once

#include <cstdint>

#include "pager/fault/doorbell.h"
#include "pager/fault/userfaultfd.h"
#include "pager/loop/address_spaces.h"
#include "pager/loop/chunk_mover.h"
#include "pager/window/backing_memory.h"

namespace weightpager {

class FaultIntake {
 public:
  FaultIntake(const LoopParts& parts, ChunkMover& chunks, AddressSpaces& spaces,
              fault::Doorbell& doorbell);

  /// Takes what is there, of all address spaces. Never blocks.
  void take_all();
  /// Somebody rang since the last call.
  bool take_ring();

 private:
  void take_faults(window::AddressSpace& space);
  void take_fault(window::AddressSpace& space, const fault::Fault& fault);
  void take_write(ServedFile& served, window::Region& region, uintptr_t touched);
  void take_touches();
  void begin_waiting(window::ChunkId chunk, const fault::Fault& fault);

  const LoopParts parts_;
  ChunkMover& chunks_;
  AddressSpaces& spaces_;
  fault::Doorbell& doorbell_;
  bool is_rung_ = false;
};

}  // namespace weightpager
