// A pager in a few lines, for tests of weightpager.ko: speaks the module's own interface and
// nothing else, so that a mistake in the real pager cannot hide one in the module.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kmod/weightpager_uapi.h"

namespace weightpager::kmod_test {

inline constexpr uint64_t page_bytes = 4096;
inline constexpr uint32_t an_hour_ms = 3'600'000;

/// What byte 0 of each page says in these tests.
inline uint64_t expected_word(uint32_t region, uint64_t page) {
  return 0x77'0000'0000 + (uint64_t{region} << 24) + page;
}

struct Settings {
  uint32_t chunk_shift = 21;
  uint32_t slots = 8;
  uint32_t events = 64;
  uint32_t timeout_ms = an_hour_ms;
};

inline void check(bool is_fine, const char* what) {
  if (!is_fine) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

/// A context, its window and its ring.
class ModulePager {
 public:
  explicit ModulePager(const Settings& settings = {}) : settings_(settings) {
    fd_ = ::open("/dev/weightpager", O_RDWR | O_CLOEXEC);
    check(fd_ >= 0, "open /dev/weightpager");
    wp_setup setup = {.version = WP_ABI_VERSION,
                      .chunk_shift = settings.chunk_shift,
                      .slots = settings.slots,
                      .events = settings.events,
                      .timeout_ms = settings.timeout_ms};
    check(ioctl(fd_, WP_IOC_SETUP, &setup) == 0, "WP_IOC_SETUP");
    ring_bytes_ = setup.ring_bytes;
    void* ring =
        mmap(nullptr, ring_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, WP_RING_OFFSET);
    check(ring != MAP_FAILED, "mapping the ring");
    ring_ = static_cast<wp_ring*>(ring);
    void* window = mmap(nullptr, window_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    check(window != MAP_FAILED, "mapping the window");
    window_ = static_cast<std::byte*>(window);
  }
  ~ModulePager() { close(); }
  ModulePager(const ModulePager&) = delete;
  ModulePager& operator=(const ModulePager&) = delete;

  void close() {
    stop();
    if (fd_ < 0) return;
    munmap(ring_, ring_bytes_);
    munmap(window_, window_bytes());
    ::close(fd_);
    fd_ = -1;
  }

  int fd() const { return fd_; }
  uint64_t chunk_bytes() const { return uint64_t{1} << settings_.chunk_shift; }
  uint64_t pages_per_chunk() const { return chunk_bytes() / page_bytes; }
  uint64_t window_bytes() const { return settings_.slots * chunk_bytes(); }
  std::byte* slot(uint32_t index) const { return window_ + index * chunk_bytes(); }
  const wp_ring& ring() const { return *ring_; }
  const volatile wp_counters& counters() const { return ring_->counters; }

  struct Region {
    int fd = -1;
    uint32_t id = 0;
  };
  Region add_region(uint64_t length_bytes) const {
    wp_region_add add = {
        .chunks = static_cast<uint32_t>((length_bytes + chunk_bytes() - 1) / chunk_bytes())};
    check(ioctl(fd_, WP_IOC_ADD_REGION, &add) == 0, "WP_IOC_ADD_REGION");
    return {add.fd, add.id};
  }

  /// 0 or an errno.
  int change(unsigned long command, wp_run run) const {
    wp_runs runs = {.runs = reinterpret_cast<uintptr_t>(&run), .count = 1};
    return ioctl(fd_, command, &runs) == 0 ? 0 : errno;
  }
  int show(uint32_t region, uint32_t chunk, uint32_t slot, uint32_t count = 1) const {
    return change(WP_IOC_SHOW, {.region = region, .chunk = chunk, .slot = slot, .count = count});
  }
  int hide(uint32_t region, uint32_t chunk, uint32_t count = 1) const {
    return change(WP_IOC_HIDE, {.region = region, .chunk = chunk, .count = count});
  }
  int evict(uint32_t region, uint32_t chunk, uint32_t count = 1) const {
    return change(WP_IOC_EVICT, {.region = region, .chunk = chunk, .count = count});
  }
  int poison(uint32_t region, uint32_t chunk, uint32_t count = 1) const {
    return change(WP_IOC_POISON, {.region = region, .chunk = chunk, .count = count});
  }
  int release(uint32_t slot, uint32_t count = 1) const {
    wp_slots slots = {.slot = slot, .count = count};
    return ioctl(fd_, WP_IOC_RELEASE, &slots) == 0 ? 0 : errno;
  }

  /// Writes what the chunk's pages are expected to say into a slot.
  void fill(uint32_t region, uint32_t chunk, uint32_t slot_index) const {
    for (uint64_t page = 0; page < pages_per_chunk(); ++page) {
      const uint64_t word = expected_word(region, chunk * pages_per_chunk() + page);
      std::memcpy(slot(slot_index) + page * page_bytes, &word, sizeof word);
    }
  }

  /// Waits for an event, unless there is none within the time.
  std::optional<wp_event> next_event(int wait_ms = -1) {
    pollfd watched = {fd_, POLLIN, 0};
    if (poll(&watched, 1, wait_ms) != 1) return {};
    const uint32_t tail = ring_->tail;
    if (__atomic_load_n(&ring_->head, __ATOMIC_ACQUIRE) == tail) return {};
    const wp_event event = reinterpret_cast<wp_event*>(ring_ + 1)[tail % settings_.events];
    __atomic_store_n(&ring_->tail, tail + 1, __ATOMIC_RELEASE);
    return event;
  }

  /// A thread that brings what is asked for, least recently brought out first, until stop().
  void serve() {
    thread_ = std::thread([this] {
      std::vector<wp_run> shown(settings_.slots);
      uint32_t next = 0;
      while (!is_stopping_) {
        const auto event = next_event(20);
        if (!event) continue;
        wp_run& out = shown[next];
        if (out.count > 0) evict(out.region, out.chunk);
        const auto chunk = static_cast<uint32_t>(event->page / pages_per_chunk());
        fill(event->region, chunk, next);
        out = {.region = event->region, .chunk = chunk, .slot = next, .count = 1};
        if (change(WP_IOC_SHOW, out) != 0) out.count = 0;
        next = (next + 1) % settings_.slots;
      }
    });
  }
  void stop() {
    is_stopping_ = true;
    if (thread_.joinable()) thread_.join();
    is_stopping_ = false;
  }

 private:
  Settings settings_;
  int fd_ = -1;
  uint64_t ring_bytes_ = 0;
  wp_ring* ring_ = nullptr;
  std::byte* window_ = nullptr;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

/// A mapping of a region, on the 2 MiB grid.
class View {
 public:
  View(int fd, uint64_t length_bytes, int protection = PROT_READ, int flags = MAP_SHARED,
       uint64_t offset_bytes = 0)
      : length_bytes_(length_bytes) {
    constexpr uint64_t grid = 2 << 20;
    auto* got = static_cast<std::byte*>(
        mmap(nullptr, length_bytes + grid, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    address_ =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(got) + grid - 1) / grid * grid);
    check(mmap(address_, length_bytes, protection, flags | MAP_FIXED, fd,
               static_cast<off_t>(offset_bytes)) != MAP_FAILED,
          "mapping a region");
  }
  ~View() { munmap(address_, length_bytes_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  std::byte* page(uint64_t index) const { return address_ + index * page_bytes; }
  uint64_t word(uint64_t page_index) const {
    return *reinterpret_cast<volatile uint64_t*>(page(page_index));
  }

 private:
  std::byte* address_ = nullptr;
  uint64_t length_bytes_;
};

namespace bus_error {
inline thread_local sigjmp_buf back;
inline thread_local bool is_expected = false;
inline void on_signal(int) {
  if (is_expected) siglongjmp(back, 1);
  _exit(99);
}
}  // namespace bus_error

/// The word at an address, or nothing where touching it is SIGBUS.
inline std::optional<uint64_t> try_word(const std::byte* address) {
  signal(SIGBUS, bus_error::on_signal);
  bus_error::is_expected = true;
  if (sigsetjmp(bus_error::back, 1) != 0) {
    bus_error::is_expected = false;
    return {};
  }
  const uint64_t word = *reinterpret_cast<const volatile uint64_t*>(address);
  bus_error::is_expected = false;
  return word;
}

}  // namespace weightpager::kmod_test
