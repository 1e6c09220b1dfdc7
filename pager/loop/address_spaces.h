// The address spaces that a pager serves, this process's and those of guests, and the descriptor
// that tells of a fault in any of them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/window/address_space.h"

namespace weightpager {

/// Used by the pager's thread only, whose descriptor table it is opened and destroyed in.
class AddressSpaces {
 public:
  using Guests = std::vector<std::unique_ptr<window::AddressSpace>>;

  /// This process's userfaultfd.
  Status open();
  void close();
  window::AddressSpace& own() { return *own_; }
  const window::AddressSpace& own() const { return *own_; }
  const Guests& guests() const { return guests_; }

  /// One descriptor for several to be watched: from now on watched_fd() is readable when any is.
  Status watch_several();
  Status watch(int fd);
  int watched_fd() const { return watch_.is_open() ? watch_.get() : own_->uffd().fd(); }

  /// Requires watch_several().
  Result<window::AddressSpace*> add_guest(std::unique_ptr<window::AddressSpace> guest);
  void remove_guest(const window::AddressSpace* guest);

 private:
  std::optional<window::AddressSpace> own_;
  Guests guests_;
  OwnedFd watch_;
};

}  // namespace weightpager
