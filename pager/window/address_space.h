// The address space that regions lie in: this process's, or a guest's. A guest is another process
// that attached to a pager which serves several (pager/attach).
//
// A guest's faults come through its own userfaultfd, which it sent. Chunks are shown in a guest
// through that userfaultfd or, with CAP_SYS_NICE, by process_madvise. Some things the kernel lets
// no process do to another one, above all sealing a range. The guest is asked to do these itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "pager/base/owned_fd.h"
#include "pager/fault/userfaultfd.h"

namespace weightpager::window {

/// How the pager speaks to a guest. Called by the pager's thread; must not wait for the guest.
class GuestLine {
 public:
  virtual ~GuestLine() = default;
  /// Asks the guest to seal the range: every touch raises SIGBUS, except of pages that the guest
  /// wrote itself.
  virtual void seal(uintptr_t address, uint64_t length_bytes) = 0;
  /// The guest can no longer be served: it seals all its regions.
  virtual void hang_up() = 0;
};

class AddressSpace {
 public:
  /// This process.
  explicit AddressSpace(fault::Userfaultfd uffd) : uffd_(std::move(uffd)) {}
  /// A guest. `process`: its pidfd; not open where there is none.
  AddressSpace(fault::Userfaultfd uffd, OwnedFd process, std::unique_ptr<GuestLine> line)
      : uffd_(std::move(uffd)), process_(std::move(process)), line_(std::move(line)) {}

  bool is_own() const { return line_ == nullptr; }
  fault::Userfaultfd& uffd() { return uffd_; }
  const fault::Userfaultfd& uffd() const { return uffd_; }
  /// Requires !is_own().
  GuestLine& line() const { return *line_; }

  /// Shows huge pages of shared memory, each by one entry of the page table (MADV_COLLAPSE, Linux
  /// 6.1). Returns false if that is not possible here.
  bool show_huge(void* address, uint64_t length_bytes) const;

 private:
  fault::Userfaultfd uffd_;
  OwnedFd process_;
  std::unique_ptr<GuestLine> line_;
};

}  // namespace weightpager::window
