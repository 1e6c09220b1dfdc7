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

#include "bench/one_chunk.h"
#include "pager/base/owned_fd.h"
#include "pager/base/units.h"
#include "pager/fault/userfaultfd.h"
#include "tests/kmod/remote/remote_uapi.h"

namespace weightpager {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t chunk_bytes = 2 * MiB;
constexpr uint64_t word = 0x77;

/// A chunk that somebody touches.
class Chunk {
 public:
  static Result<std::unique_ptr<Chunk>> create(const char* mapper) {
    auto chunk = OneChunk::create(mapper, chunk_bytes, word);
    if (!chunk) return forward_error(std::move(chunk));
    return std::unique_ptr<Chunk>(new Chunk(std::move(*chunk)));
  }

  const std::byte* address() const { return chunk_->address(); }
  bool show() { return chunk_->show(); }
  bool hide() {
    chunk_->region().notes(0).is_waited_for = false;
    return chunk_->hide();
  }
  /// Whether somebody touched it within that time.
  bool await_touch(int wait_ms) {
    window::ModuleWindow* const module = chunk_->module();
    pollfd watched = {module != nullptr ? module->fd() : chunk_->own().uffd().fd(), POLLIN, 0};
    poll(&watched, 1, wait_ms);
    if (module != nullptr) return module->next_touch().has_value();
    std::array<fault::Fault, 1> faults;
    const bool is_touched = chunk_->own().uffd().read_faults(faults) > 0;
    return chunk_->region().notes(0).is_waited_for = is_touched;
  }

 private:
  explicit Chunk(std::unique_ptr<OneChunk> chunk) : chunk_(std::move(chunk)) {}

  std::unique_ptr<OneChunk> chunk_;
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
