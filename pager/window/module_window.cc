#include "pager/window/module_window.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include "kmod/weightpager_uapi.h"
#include "pager/base/assert.h"
#include "pager/base/own_limits.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::window {
namespace {

using fault::Outcome;

// At most one touch per chunk is under way. Where there are more touches than events, threads that
// wait for room look again every few milliseconds.
constexpr uint32_t events_max = 4096;
// A disk that has not answered by then will not answer: an error is better, as with other disks.
constexpr uint32_t timeout_ms = 120'000;

}  // namespace

Result<std::unique_ptr<ModuleWindow>> ModuleWindow::create(uint32_t slots, uint64_t chunk_bytes) {
  const auto no = [](const std::string& step, const char* hint) {
    const int error = errno;
    return fail(step + ": " + std::strerror(error), hint, error);
  };
  std::unique_ptr<ModuleWindow> it(new ModuleWindow(chunk_bytes));
  it->device_ = OwnedFd(::open(module_device_path, O_RDWR | O_CLOEXEC));
  if (!it->device_.is_open()) {
    return no(std::string("the kernel module's ") + module_device_path,
              errno == EACCES ? "setfacl -m u:$USER:rw /dev/weightpager"
                              : "build and load the module: kmod/README.md");
  }
  it->events_ = events_max;
  wp_setup setup = {.version = WP_ABI_VERSION,
                    .chunk_shift = static_cast<uint32_t>(std::countr_zero(chunk_bytes)),
                    .slots = slots,
                    .events = events_max,
                    .timeout_ms = timeout_ms};
  if (ioctl(it->device_.get(), WP_IOC_SETUP, &setup) != 0) {
    return no("the kernel module's setup", errno == EPROTO
                                               ? "use the module of this version of weightpager"
                                               : "use a smaller window");
  }
  it->ring_bytes_ = setup.ring_bytes;
  void* const ring = kernel::mmap(nullptr, setup.ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                  it->device_.get(), static_cast<off_t>(WP_RING_OFFSET));
  if (ring == MAP_FAILED) return no("mapping the kernel module's ring", address_limit_hint());
  it->ring_ = static_cast<wp_ring*>(ring);

  const uint64_t length_bytes = slots * chunk_bytes;
  it->reservation_bytes_ = length_bytes + huge_page_bytes;
  void* const got = kernel::mmap(nullptr, it->reservation_bytes_, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return no("reserving addresses for the window", address_limit_hint());
  it->reservation_ = got;
  it->base_ =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(got), huge_page_bytes));
  if (kernel::mmap(it->base_, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   it->device_.get(), 0) == MAP_FAILED) {
    return no("mapping the kernel module's window", address_limit_hint());
  }
  return it;
}

ModuleWindow::~ModuleWindow() {
  if (reservation_ != nullptr) kernel::munmap(reservation_, reservation_bytes_);
  if (ring_ != nullptr) kernel::munmap(ring_, ring_bytes_);
}

Result<ModuleFile> ModuleWindow::add_file(uint32_t chunks) {
  wp_region_add add = {.chunks = chunks};
  if (ioctl(device_.get(), WP_IOC_ADD_REGION, &add) != 0) {
    const int error = errno;
    return fail("a region of " + format_size(chunks * chunk_bytes_) +
                    " in the kernel module: " + std::strerror(error),
                "raise `ulimit -n`", error);
  }
  return ModuleFile{add.id, OwnedFd(add.fd)};
}

Outcome ModuleWindow::show(uint32_t file, uint32_t chunk, SlotId slot) const {
  const int error = change(WP_IOC_SHOW, file, chunk, slot, 1);
  if (error == 0 || error == EEXIST) return Outcome::done;
  errno = error;
  return Outcome::failed;
}

void ModuleWindow::hide(uint32_t file, uint32_t chunk, uint32_t count) const {
  WP_ASSERT(change(WP_IOC_HIDE, file, chunk, 0, count) == 0);
}

void ModuleWindow::give_back(uint32_t file, uint32_t chunk) const {
  WP_ASSERT(change(WP_IOC_EVICT, file, chunk, 0, 1) == 0);
}

void ModuleWindow::poison(uint32_t file, uint32_t chunk) const {
  WP_ASSERT(change(WP_IOC_POISON, file, chunk, 0, 1) == 0);
}

void ModuleWindow::empty(SlotId slot) const {
  const wp_slots which = {.slot = slot, .count = 1};
  WP_ASSERT(ioctl(device_.get(), WP_IOC_RELEASE, &which) == 0);
}

std::optional<ModuleWindow::Touch> ModuleWindow::next_touch() {
  const std::atomic_ref<uint32_t> head(ring_->head), tail(ring_->tail);
  const uint32_t next = tail.load(std::memory_order_relaxed);
  if (head.load(std::memory_order_acquire) == next) return {};
  const auto* const events = reinterpret_cast<const wp_event*>(ring_ + 1);
  const wp_event& event = events[next % events_];
  const Touch touch{event.region, event.page * os_page_bytes, event.thread};
  tail.store(next + 1, std::memory_order_release);
  return touch;
}

// 0 or an errno.
int ModuleWindow::change(unsigned long command, uint32_t file, uint32_t chunk, SlotId slot,
                         uint32_t count) const {
  const wp_run run = {.region = file, .chunk = chunk, .slot = slot, .count = count};
  wp_runs runs = {.runs = reinterpret_cast<uintptr_t>(&run), .count = 1};
  return ioctl(device_.get(), command, &runs) == 0 ? 0 : errno;
}

}  // namespace weightpager::window
