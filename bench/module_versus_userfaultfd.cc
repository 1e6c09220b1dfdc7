// The kernel module beside userfaultfd, in one program on one kernel: the same chunk is shown and
// hidden, the same thread touches it and waits, a GPU's stand-in (tests/kmod/remote) faults on it;
// only the mapper is another. tests/kernels/module_versus_userfaultfd_6_12.sh runs it in an
// emulated machine, where times are good for ratios only.
//
//     module_versus_userfaultfd ROUNDS
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "pager/base/owned_fd.h"
#include "pager/base/units.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/address_space.h"
#include "pager/window/mapper.h"
#include "pager/window/module_window.h"
#include "pager/window/region.h"
#include "pager/window/slot_pool.h"
#include "tests/kmod/remote/remote_uapi.h"

namespace weightpager {
namespace {

using Clock = std::chrono::steady_clock;
using fault::Outcome;

constexpr uint64_t chunk_bytes = 2 * MiB;
constexpr uint64_t word = 0x77;

/// One chunk of a region, and the slot that has its bytes.
class Chunk {
 public:
  static Result<std::unique_ptr<Chunk>> create(const char* mapper) {
    auto uffd = fault::Userfaultfd::open();
    if (!uffd) return forward_error(std::move(uffd));
    std::unique_ptr<Chunk> it(new Chunk(std::move(*uffd)));
    if (auto done = it->set_up(mapper); !done) return forward_error(std::move(done));
    return it;
  }

  const std::byte* address() const { return region_->address(); }
  bool show() {
    if (window_) return memory_->show_chunk(0, 0) == Outcome::done;
    return mapper_->show(*region_, {}, bytes_) == Outcome::done;
  }
  bool hide() {
    region_->notes(0).is_waited_for = false;
    if (!window_) return mapper_->hide(*region_, {}, bytes_) == Outcome::done;
    memory_->hide_chunks(0, 1);
    return true;
  }
  /// Whether somebody touched it within that time.
  bool await_touch(int wait_ms) {
    pollfd watched = {window_ ? window_->fd() : own_.uffd().fd(), POLLIN, 0};
    poll(&watched, 1, wait_ms);
    std::array<fault::Fault, 1> faults;
    if (window_) return window_->next_touch().has_value();
    return region_->notes(0).is_waited_for = own_.uffd().read_faults(faults) > 0;
  }

 private:
  explicit Chunk(fault::Userfaultfd uffd) : own_(std::move(uffd)) {}

  Status set_up(const char* name) {
    auto mapper = window::choose_mapper(name, own_, chunk_bytes);
    if (!mapper) return forward_error(std::move(mapper));
    mapper_ = std::move(*mapper);
    if (mapper_->needs_module()) return set_up_module();
    if (mapper_->shares_memory())
      return set_up_view(window::SharedMemory::create(chunk_bytes, chunk_bytes));
    auto pool = window::SlotPool::create(1, chunk_bytes);
    if (!pool) return forward_error(std::move(pool));
    pool_ = std::move(*pool);
    bytes_ = pool_->address(0);
    fill();
    if (auto done = reserve(window::Region::no_memory); !done) return done;
    if (auto done = own_.uffd().register_range(region_->address(), chunk_bytes, true); !done)
      return done;
    return mapper_->prepare_slots(own_.uffd(), bytes_, chunk_bytes);
  }
  // Before anybody watches the slot.
  void fill() {
    std::memset(bytes_, 0, chunk_bytes);
    std::memcpy(bytes_, &word, sizeof word);
  }
  Status set_up_module() {
    auto window = window::ModuleWindow::create(1, chunk_bytes);
    if (!window) return forward_error(std::move(window));
    window_ = std::move(*window);
    return set_up_view(window_->add_memory(1));
  }
  Status set_up_view(Result<std::unique_ptr<window::SharedMemory>> memory) {
    if (!memory) return forward_error(std::move(memory));
    memory_ = std::move(*memory);
    bytes_ = memory_->at(0, 0);
    fill();
    if (auto done = reserve(memory_->view_fd()); !done || window_) return done;
    return own_.uffd().register_view(region_->address(), chunk_bytes);
  }
  Status reserve(int memory_fd) {
    auto region = window::Region::reserve(
        {.offset_bytes = 0, .length_bytes = chunk_bytes, .file_size_bytes = chunk_bytes},
        chunk_bytes, own_, memory_fd, window_ ? MAP_SHARED : MAP_PRIVATE);
    if (!region) return forward_error(std::move(region));
    region_ = std::move(*region);
    return {};
  }

  window::AddressSpace own_;
  std::unique_ptr<window::Mapper> mapper_;
  std::unique_ptr<window::ModuleWindow> window_;
  std::unique_ptr<window::SharedMemory> memory_;
  std::unique_ptr<window::SlotPool> pool_;
  std::unique_ptr<window::Region> region_;
  std::byte* bytes_ = nullptr;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void give_up(const char* what) {
  fmt::print(stderr, "module_versus_userfaultfd: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

uint64_t load(const std::byte* address) {
  return *reinterpret_cast<const volatile uint64_t*>(address);
}

/// Microseconds to show a chunk, read a byte of it, and hide it again.
double show_and_hide_us(Chunk& chunk, int rounds) {
  const auto begin = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    if (!chunk.show() || load(chunk.address()) != word || !chunk.hide()) give_up("show and hide");
  }
  return seconds_since(begin) * 1e6 / rounds;
}

void wait_for(const std::atomic<int>& count, int wanted) {
  for (int now = count; now < wanted; now = count) count.wait(now);
}

void count_up(std::atomic<int>& count) {
  ++count;
  count.notify_one();
}

/// Touches a second that wait for this thread; the chunk is hidden in between.
double touches_per_second(Chunk& chunk, int rounds) {
  std::atomic<int> hidden = 0, touched = 0;
  std::thread engine([&] {
    for (int i = 0; i < rounds; ++i) {
      wait_for(hidden, i);
      if (load(chunk.address()) != word) give_up("wrong bytes");
      count_up(touched);
    }
  });
  const auto begin = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    while (!chunk.await_touch(-1)) continue;
    if (!chunk.show()) give_up("show");
    wait_for(touched, i + 1);
    if (!chunk.hide()) give_up("hide");
    count_up(hidden);
  }
  const double seconds = seconds_since(begin);
  engine.join();
  return rounds / seconds;
}

std::string gpu_fault(Chunk& chunk, const OwnedFd& gpu) {
  if (!gpu.is_open()) return "not tried";
  remote_access access = {.address = reinterpret_cast<uintptr_t>(chunk.address())};
  std::atomic<int> error = -1;
  std::thread driver([&] { error = ioctl(gpu.get(), REMOTE_HMM, &access) == 0 ? 0 : errno; });
  bool is_shown = false;
  while (error < 0) {
    if (!is_shown && chunk.await_touch(10)) is_shown = chunk.show();
  }
  driver.join();
  if (is_shown && !chunk.hide()) give_up("hide");
  if (error != 0) return strerrorname_np(error);
  return access.result == word ? "waits" : "WRONG BYTES";
}

/// Whether the module's GPU waits, and userfaultfd's cannot.
bool print_table(int rounds) {
  const OwnedFd gpu(open("/dev/weightpager_remote", O_RDWR | O_CLOEXEC));
  bool is_as_expected = true;
  fmt::print("{:<10} {:>13} {:>22} {:>14}\n", "mapper", "touches per s", "show + hide 2 MiB, us",
             "a GPU's fault");
  for (const char* const name : {"module", "move", "collapse", "copy"}) {
    auto chunk = Chunk::create(name);
    if (!chunk) {
      fmt::print("{:<10} {}\n", name, chunk.error().message);
      continue;
    }
    const double us = show_and_hide_us(**chunk, rounds);
    const double touches = touches_per_second(**chunk, rounds);
    const std::string answer = gpu_fault(**chunk, gpu);
    fmt::print("{:<10} {:>13.0f} {:>22.1f} {:>14}\n", name, touches, us, answer);
    is_as_expected &= answer == (!gpu.is_open()                  ? "not tried"
                                 : name == std::string("module") ? "waits"
                                                                 : "EFAULT");
  }
  return is_as_expected;
}

}  // namespace
}  // namespace weightpager

int main(int count, char** arguments) {
  setlinebuf(stdout);
  if (count != 2 || std::atoi(arguments[1]) < 1) {
    fmt::print(stderr, "module_versus_userfaultfd ROUNDS\n");
    return 2;
  }
  return weightpager::print_table(std::atoi(arguments[1])) ? 0 : 1;
}
