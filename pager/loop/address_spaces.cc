#include "pager/loop/address_spaces.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace weightpager {

Status AddressSpaces::open() {
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return forward_error(std::move(uffd));
  own_.emplace(std::move(*uffd));
  return {};
}

void AddressSpaces::close() {
  guests_.clear();
  own_.reset();
  watch_ = {};
}

Status AddressSpaces::watch_several() {
  watch_ = OwnedFd(epoll_create1(EPOLL_CLOEXEC));
  return watch(own_->uffd().fd());
}

Status AddressSpaces::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(watch_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return fail(std::string("watching for faults: ") + std::strerror(errno), "", errno);
}

Result<window::AddressSpace*> AddressSpaces::add_guest(
    std::unique_ptr<window::AddressSpace> guest) {
  if (auto watched = watch(guest->uffd().fd()); !watched) return forward_error(std::move(watched));
  guests_.push_back(std::move(guest));
  return guests_.back().get();
}

void AddressSpaces::remove_guest(const window::AddressSpace* guest) {
  std::erase_if(guests_, [&](const auto& it) { return it.get() == guest; });
}

}  // namespace weightpager
