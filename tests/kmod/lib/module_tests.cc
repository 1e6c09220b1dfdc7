// weightpager.ko, looked at from all sides. Runs as root on a kernel that has it and
// weightpager_remote.ko loaded: tests/kernels/module.sh.
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <string>

#include "tests/kmod/lib/module_pager.h"
#include "tests/kmod/remote/remote_uapi.h"

namespace weightpager::kmod_test {
namespace {

constexpr uint64_t MiB = 1 << 20;
constexpr uint64_t chunk2m = 2 * MiB;

// What is done in a process of its own must be done before this one has threads of its own.
class Child {
 public:
  explicit Child(const std::function<int()>& act) {
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(act());
  }
  ~Child() {
    if (pid_ > 0) kill_now();
  }
  pid_t pid() const { return pid_; }
  void kill_now() {
    kill(pid_, SIGKILL);
    wait_for_end();
  }
  // The exit status; a signal's number, negative.
  int wait_for_end() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

uint64_t huge_bytes_of(const std::byte* address) {
  std::ifstream file("/proc/self/smaps");
  std::string line;
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool is_here = false;
  while (std::getline(file, line)) {
    unsigned long begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      is_here = begin <= wanted && wanted < end;
    if (is_here && std::sscanf(line.c_str(), "FilePmdMapped: %lu kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

// What the kernel has complained about since the last call.
std::string complaints() {
  constexpr int read_and_clear = 4;
  std::string log(1 << 20, '\0');
  log.resize(static_cast<size_t>(
      std::max(klogctl(read_and_clear, log.data(), static_cast<int>(log.size())), 0)));
  for (const char* const sign :
       {"WARNING:", "BUG:", "Oops", "Bad page", "Call Trace", "Bad rss-counter"}) {
    if (log.find(sign) != std::string::npos) return log;
  }
  return "";
}

class Module : public testing::Test {
 protected:
  static void SetUpTestSuite() { complaints(); }
  void TearDown() override { EXPECT_EQ(complaints(), ""); }
};

class RemoteDevice {
 public:
  RemoteDevice() : fd_(::open("/dev/weightpager_remote", O_RDWR | O_CLOEXEC)) {
    check(fd_ >= 0, "open /dev/weightpager_remote");
  }
  ~RemoteDevice() { ::close(fd_); }
  // 0 or an errno.
  int access(unsigned long command, const std::byte* address, uint64_t& word) const {
    remote_access access = {.address = reinterpret_cast<uintptr_t>(address)};
    const int error = ioctl(fd_, command, &access) == 0 ? 0 : errno;
    word = access.result;
    return error;
  }

 private:
  int fd_;
};

// ---- Faults ----

TEST_F(Module, ATouchWaitsAndGetsItsBytes) {
  ModulePager pager;
  const auto region = pager.add_region(4 * chunk2m);
  const View view(region.fd, 4 * chunk2m);
  pager.serve();
  for (const uint64_t page : {0u, 511u, 512u, 1700u, 2047u})
    EXPECT_EQ(view.word(page), expected_word(region.id, page));
  EXPECT_EQ(pager.counters().waits, 3u);
  EXPECT_EQ(pager.counters().waits_locked, 0u);
}

TEST_F(Module, HugePagesAreMappedAsSuchInBothPlaces) {
  ModulePager pager;
  const auto region = pager.add_region(2 * chunk2m);
  const View view(region.fd, 2 * chunk2m);
  pager.fill(region.id, 0, 0);
  ASSERT_EQ(pager.show(region.id, 0, 0), 0);
  ASSERT_EQ(pager.counters().huge_slots, 1u) << "no free huge page on this machine";
  EXPECT_EQ(view.word(5), expected_word(region.id, 5));
  EXPECT_EQ(huge_bytes_of(view.page(0)), chunk2m);
  EXPECT_EQ(huge_bytes_of(pager.slot(0)), chunk2m);
}

TEST_F(Module, SmallChunksAreMappedAsAWholeByTheSecondTouch) {
  ModulePager pager({.chunk_shift = 16, .slots = 4});
  const auto region = pager.add_region(256 * 1024);
  const View view(region.fd, 256 * 1024);
  pager.serve();
  for (uint64_t page = 0; page < 48; ++page)
    ASSERT_EQ(view.word(page), expected_word(region.id, page));
  // Three chunks: three waits and as many retries, and not a fault for each page.
  EXPECT_LT(pager.counters().faults, 3 * 4u + 1);
}

TEST_F(Module, BeyondTheRegionIsABusError) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  const View view(region.fd, 2 * chunk2m);
  pager.serve();
  EXPECT_EQ(view.word(511), expected_word(region.id, 511));
  EXPECT_FALSE(try_word(view.page(512)));
}

TEST_F(Module, WhatIsHiddenWaitsAgainEverywhere) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  const View one(region.fd, chunk2m), two(region.fd, chunk2m),
      part(region.fd, 8 * page_bytes, PROT_READ, MAP_SHARED, 4 * page_bytes);
  pager.fill(region.id, 0, 3);
  ASSERT_EQ(pager.show(region.id, 0, 3), 0);
  EXPECT_EQ(one.word(6), expected_word(region.id, 6));
  EXPECT_EQ(two.word(6), expected_word(region.id, 6));
  EXPECT_EQ(part.word(2), expected_word(region.id, 6));
  ASSERT_EQ(pager.evict(region.id, 0), 0);
  EXPECT_EQ(pager.counters().slots_replaced, 0u);
  for (const std::byte* const page : {one.page(6), two.page(6), part.page(2)}) {
    std::atomic<uint64_t> word = 0;
    std::thread toucher([&] { word = *reinterpret_cast<const volatile uint64_t*>(page); });
    const auto event = pager.next_event();
    EXPECT_TRUE(event && event->page == 6 && event->flags == 0);
    EXPECT_EQ(word, 0u);
    EXPECT_EQ(pager.show(region.id, 0, 3), 0);
    toucher.join();
    EXPECT_EQ(word, expected_word(region.id, 6));
    EXPECT_EQ(pager.evict(region.id, 0), 0);
  }
}

TEST_F(Module, WhatIsHiddenKeepsItsBytesWhoeverPinsThem) {
  ModulePager pager;
  const auto region = pager.add_region(2 * chunk2m);
  const View view(region.fd, 2 * chunk2m);
  const RemoteDevice gpu;
  uint64_t word = 0;
  pager.fill(region.id, 0, 0);
  ASSERT_EQ(pager.show(region.id, 0, 0), 0);
  ASSERT_EQ(gpu.access(REMOTE_PIN, view.page(3), word), 0);
  ASSERT_EQ(pager.hide(region.id, 0), 0);
  EXPECT_EQ(pager.show(region.id, 1, 0), EBUSY);
  EXPECT_EQ(pager.show(region.id, 0, 1), EBUSY);
  EXPECT_EQ(pager.release(0), EBUSY);
  ASSERT_EQ(pager.show(region.id, 0, 0), 0);
  EXPECT_EQ(view.word(4), expected_word(region.id, 4));
  EXPECT_EQ(pager.counters().slots_replaced, 0u);
  ASSERT_EQ(pager.hide(region.id, 0), 0);
  ASSERT_EQ(pager.evict(region.id, 0), 0);
  EXPECT_EQ(pager.counters().slots_replaced, 1u);
}

TEST_F(Module, ARunIsHiddenByOneWalk) {
  ModulePager pager;
  const auto region = pager.add_region(8 * chunk2m);
  const View view(region.fd, 8 * chunk2m);
  for (uint32_t i = 0; i < 8; ++i) pager.fill(region.id, i, i);
  ASSERT_EQ(pager.show(region.id, 0, 0, 8), 0);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(view.word(i * 512), expected_word(region.id, i * 512));
  EXPECT_EQ(pager.counters().waits, 0u);
  ASSERT_EQ(pager.evict(region.id, 0, 8), 0);
  EXPECT_EQ(pager.counters().unmaps, 1u);
  EXPECT_EQ(pager.counters().chunks_hidden, 8u);
}

// On the toucher's processor and before it in line, so that it cannot run in between.
TEST_F(Module, WhatIsHiddenBeforeItsWaiterSawItIsAskedForAgain) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  const View view(region.fd, chunk2m);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  std::thread pager_thread([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::atomic<uint64_t> word = 0;
    std::thread toucher([&] { word = view.word(5); });
    const sched_param first{.sched_priority = 1};
    ASSERT_EQ(sched_setscheduler(0, SCHED_FIFO, &first), 0);
    for (int round = 0; round < 5; ++round) {
      const auto event = pager.next_event(60'000);
      EXPECT_TRUE(event && event->page == 5) << "round " << round;
      if (round == 0) pager.fill(region.id, 0, 0);
      EXPECT_EQ(pager.show(region.id, 0, 0), 0);
      if (round < 4) {
        EXPECT_EQ(pager.evict(region.id, 0), 0);
      }
    }
    toucher.join();
    EXPECT_EQ(word, expected_word(region.id, 5));
  });
  pager_thread.join();
  EXPECT_EQ(pager.counters().waits, 1u);
}

TEST_F(Module, PoisonIsABusErrorForWhoWaitsAndWhoComes) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  const View view(region.fd, chunk2m);
  std::atomic<bool> is_there = true;
  std::thread toucher([&] { is_there = try_word(view.page(0)).has_value(); });
  ASSERT_TRUE(pager.next_event());
  ASSERT_EQ(pager.poison(region.id, 0), 0);
  toucher.join();
  EXPECT_FALSE(is_there);
  EXPECT_FALSE(try_word(view.page(1)));
  pager.fill(region.id, 0, 0);
  ASSERT_EQ(pager.show(region.id, 0, 0), 0);
  EXPECT_EQ(try_word(view.page(1)), expected_word(region.id, 1));
  ASSERT_EQ(pager.poison(region.id, 0), 0);
  EXPECT_FALSE(try_word(view.page(1)));
}

TEST_F(Module, WhatNobodyBringsFailsAfterTheTimeout) {
  ModulePager pager({.timeout_ms = 50});
  const auto region = pager.add_region(chunk2m);
  const View view(region.fd, chunk2m);
  EXPECT_FALSE(try_word(view.page(0)));
  EXPECT_EQ(pager.counters().timeouts, 1u);
}

TEST_F(Module, ARingThatIsFullLosesNobody) {
  ModulePager pager({.chunk_shift = 16, .slots = 16, .events = 1});
  const auto region = pager.add_region(16 * 65536);
  const View view(region.fd, 16 * 65536);
  std::vector<std::thread> touchers;
  std::atomic<int> right = 0;
  for (uint64_t i = 0; i < 16; ++i) {
    touchers.emplace_back(
        [&, i] { right += view.word(i * 16) == expected_word(region.id, i * 16) ? 1 : 0; });
  }
  pager.serve();
  for (auto& toucher : touchers) toucher.join();
  EXPECT_EQ(right, 16);
}

// ---- Mappings ----

TEST_F(Module, OthersMapAndUnmapWhileATouchWaits) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  const View view(region.fd, chunk2m);
  std::thread toucher([&] { view.word(0); });
  ASSERT_TRUE(pager.next_event());
  // Were the mmap lock held, this would wait for the touch, and the touch for this thread: an hour.
  for (int i = 0; i < 100; ++i) {
    void* memory =
        mmap(nullptr, 64 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile char*>(memory) = 1;
    munmap(memory, 64 * page_bytes);
  }
  pager.fill(region.id, 0, 0);
  EXPECT_EQ(pager.show(region.id, 0, 0), 0);
  toucher.join();
}

TEST_F(Module, RegionsCannotBeWrittenTo) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  EXPECT_EQ(mmap(nullptr, chunk2m, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  const View view(region.fd, chunk2m);
  EXPECT_EQ(mprotect(view.page(0), chunk2m, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(ioctl(region.fd, WP_IOC_HIDE, 0), -1);
  EXPECT_EQ(write(region.fd, "x", 1), -1);
  const std::string link = "/proc/self/fd/" + std::to_string(region.fd);
  EXPECT_EQ(::open(link.c_str(), O_RDWR), -1);
}

TEST_F(Module, PrivateMappingsKeepWhatIsWritten) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  const View view(region.fd, chunk2m, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  pager.serve();
  *reinterpret_cast<volatile uint64_t*>(view.page(3)) = 42;  // absent
  EXPECT_EQ(view.word(4), expected_word(region.id, 4));
  *reinterpret_cast<volatile uint64_t*>(view.page(4)) = 43;  // present
  pager.stop();
  ASSERT_EQ(pager.evict(region.id, 0), 0);
  EXPECT_EQ(view.word(3), 42u);
  EXPECT_EQ(view.word(4), 43u);
  pager.serve();
  EXPECT_EQ(view.word(5), expected_word(region.id, 5));
}

TEST_F(Module, ForkMremapAndPartialUnmapping) {
  ModulePager pager;
  const auto region = pager.add_region(4 * chunk2m);
  auto* const view =
      static_cast<std::byte*>(mmap(nullptr, 4 * chunk2m, PROT_READ, MAP_SHARED, region.fd, 0));
  ASSERT_NE(view, MAP_FAILED);
  const auto word = [&](const std::byte* base, uint64_t page) {
    return *reinterpret_cast<const volatile uint64_t*>(base + page * page_bytes);
  };
  for (uint32_t i = 0; i < 4; ++i) pager.fill(region.id, i, i);
  ASSERT_EQ(pager.show(region.id, 0, 0, 2), 0);
  EXPECT_EQ(word(view, 100), expected_word(region.id, 100));
  Child child([&] {
    const bool is_right = word(view, 101) == expected_word(region.id, 101) &&
                          word(view, 1200) == expected_word(region.id, 1200);
    return is_right ? 0 : 1;
  });
  const auto event = pager.next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->page, 1200u);
  ASSERT_EQ(pager.show(region.id, 2, 2, 2), 0);
  EXPECT_EQ(child.wait_for_end(), 0);
  // A hole in the middle of a huge page, and the rest of it elsewhere.
  ASSERT_EQ(munmap(view + 200 * page_bytes, 100 * page_bytes), 0);
  EXPECT_EQ(word(view, 199), expected_word(region.id, 199));
  EXPECT_EQ(word(view, 300), expected_word(region.id, 300));
  // To a place of ours: MREMAP_FIXED takes away what is there, be it the heap.
  const View elsewhere(region.fd, chunk2m);
  auto* const moved = static_cast<std::byte*>(mremap(
      view + 2 * chunk2m, chunk2m, chunk2m, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere.page(0)));
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_EQ(word(moved, 7), expected_word(region.id, 1024 + 7));
  EXPECT_EQ(madvise(moved, chunk2m, MADV_DONTNEED), 0);
  EXPECT_EQ(word(moved, 8), expected_word(region.id, 1024 + 8));
  ASSERT_EQ(pager.evict(region.id, 0, 4), 0);
  EXPECT_EQ(pager.counters().slots_replaced, 0u);
  pager.serve();
  EXPECT_EQ(word(moved, 9), expected_word(region.id, 1024 + 9));
  EXPECT_EQ(word(view, 300), expected_word(region.id, 300));
  munmap(view, 4 * chunk2m);
}

TEST_F(Module, AMappingThatIsUnmappedUnderAWaiterLetsItGo) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  auto* const view =
      static_cast<std::byte*>(mmap(nullptr, chunk2m, PROT_READ, MAP_SHARED, region.fd, 0));
  std::atomic<uint64_t> word = 1;
  std::thread toucher([&] { word = *reinterpret_cast<const volatile uint64_t*>(view); });
  ASSERT_TRUE(pager.next_event());
  ASSERT_EQ(mmap(view, chunk2m, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), view);
  toucher.join();
  EXPECT_EQ(word, 0u);
  munmap(view, chunk2m);
}

// ---- Accesses by the kernel ----

TEST_F(Module, SystemCallsReadWhatIsAbsent) {
  ModulePager pager;
  const auto region = pager.add_region(4 * chunk2m);
  const View view(region.fd, 4 * chunk2m);
  pager.serve();
  uint64_t word = 0;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], view.page(0), 8), 8);
  ASSERT_EQ(read(ends[0], &word, 8), 8);
  EXPECT_EQ(word, expected_word(region.id, 0));
  const int file = ::open("direct", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(pwrite(file, view.page(512), page_bytes, 0), static_cast<ssize_t>(page_bytes))
      << strerror(errno);
  alignas(4096) static std::byte back[4096];
  ASSERT_EQ(pread(file, back, sizeof back, 0), static_cast<ssize_t>(sizeof back));
  std::memcpy(&word, back, 8);
  EXPECT_EQ(word, expected_word(region.id, 512));
  iovec local = {&word, 8}, remote = {view.page(1024), 8};
  ASSERT_EQ(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), 8) << strerror(errno);
  EXPECT_EQ(word, expected_word(region.id, 1024));
  EXPECT_EQ(pager.counters().waits_locked, 0u);
  ::close(file);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Module, AGpusFaultWaitsAndGetsItsBytes) {
  ModulePager pager;
  const auto region = pager.add_region(2 * chunk2m);
  const View view(region.fd, 2 * chunk2m);
  const RemoteDevice gpu;
  uint64_t word = 0;
  int error = -1;
  std::thread kernel([&] { error = gpu.access(REMOTE_HMM, view.page(700), word); });
  const auto event = pager.next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->page, 700u);
  EXPECT_EQ(event->flags, uint32_t{WP_EVENT_REMOTE | WP_EVENT_LOCKED | WP_EVENT_KERNEL});
  pager.fill(region.id, 1, 0);
  ASSERT_EQ(pager.show(region.id, 1, 0), 0);
  kernel.join();
  EXPECT_EQ(error, 0);
  EXPECT_EQ(word, expected_word(region.id, 700));
  EXPECT_EQ(pager.counters().waits_remote, 1u);
}

// The comparison that the module is for.
TEST_F(Module, AGpusFaultOnUserfaultfdFails) {
  const int uffd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  ASSERT_GE(uffd, 0);
  uffdio_api api = {.api = UFFD_API};
  ASSERT_EQ(ioctl(uffd, UFFDIO_API, &api), 0);
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  uffdio_register range = {.range = {reinterpret_cast<uintptr_t>(memory), page_bytes},
                           .mode = UFFDIO_REGISTER_MODE_MISSING};
  ASSERT_EQ(ioctl(uffd, UFFDIO_REGISTER, &range), 0);
  const RemoteDevice gpu;
  uint64_t word = 0;
  EXPECT_EQ(gpu.access(REMOTE_HMM, memory, word), EFAULT);
  munmap(memory, page_bytes);
  ::close(uffd);
}

TEST_F(Module, WhatIsPinnedKeepsItsBytes) {
  for (const uint32_t shift : {21u, 16u}) {
    ModulePager pager({.chunk_shift = shift});
    const auto region = pager.add_region(2 * chunk2m);
    const View view(region.fd, 2 * chunk2m);
    const RemoteDevice gpu;
    uint64_t word = 0;
    int error = -1;
    std::thread pinner([&] { error = gpu.access(REMOTE_PIN, view.page(3), word); });
    ASSERT_TRUE(pager.next_event());
    pager.fill(region.id, 0, 0);
    ASSERT_EQ(pager.show(region.id, 0, 0), 0);
    pinner.join();
    ASSERT_EQ(error, 0);
    EXPECT_EQ(word, expected_word(region.id, 3));
    ASSERT_EQ(pager.evict(region.id, 0), 0);
    EXPECT_EQ(pager.counters().slots_replaced, 1u);
    pager.fill(region.id, 1, 0);
    ASSERT_EQ(pager.show(region.id, 1, 0), 0);
    EXPECT_EQ(view.word(pager.pages_per_chunk()),
              expected_word(region.id, pager.pages_per_chunk()));
    ASSERT_EQ(gpu.access(REMOTE_READ_PINNED, nullptr, word), 0);
    EXPECT_EQ(word, expected_word(region.id, 3));
  }
}

// ---- Ends ----

TEST_F(Module, APagerThatIsKilledFailsWhoWaitsAndWhoComes) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  // The region's descriptor, and nothing else of the pager's, comes here.
  int region_fd = -1;
  int sent[2];
  ASSERT_EQ(pipe(sent), 0);
  Child owner([&] {
    ModulePager mine;
    const auto region = mine.add_region(4 * chunk2m);
    mine.fill(region.id, 0, 0);
    mine.show(region.id, 0, 0);
    if (write(sent[1], &region.fd, sizeof region.fd) < 0) return 1;
    if (!mine.next_event()) return 2;
    if (write(ready[1], "w", 1) < 0) return 3;
    pause();
    return 4;
  });
  int number = -1;
  ASSERT_EQ(read(sent[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
  const int process = static_cast<int>(syscall(SYS_pidfd_open, owner.pid(), 0));
  region_fd = static_cast<int>(syscall(SYS_pidfd_getfd, process, number, 0));
  ASSERT_GE(region_fd, 0) << strerror(errno);
  const View view(region_fd, 4 * chunk2m);
  EXPECT_TRUE(try_word(view.page(1)));
  std::atomic<bool> is_there = true;
  std::thread toucher([&] { is_there = try_word(view.page(512)).has_value(); });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  owner.kill_now();
  toucher.join();  // an hour before its time is out
  EXPECT_FALSE(is_there);
  EXPECT_FALSE(try_word(view.page(1)));     // was mapped
  EXPECT_FALSE(try_word(view.page(1024)));  // was not
  ::close(region_fd);
  ::close(process);
  for (const int fd : {ready[0], ready[1], sent[0], sent[1]}) ::close(fd);
}

TEST_F(Module, AClientThatIsKilledInAnyStateIsForgotten) {
  ModulePager pager;
  const auto region = pager.add_region(3 * chunk2m);
  pager.fill(region.id, 0, 0);
  ASSERT_EQ(pager.show(region.id, 0, 0), 0);
  const View view(region.fd, 3 * chunk2m);
  for (int round = 0; round < 20; ++round) {
    Child client([&] {
      view.word(0);
      std::thread other([&] { view.word(1024); });
      view.word(512);
      other.join();
      return 0;
    });
    // Both of them wait, in whatever order.
    ASSERT_TRUE(pager.next_event());
    ASSERT_TRUE(pager.next_event());
    if (round % 2 == 1) {
      pager.fill(region.id, 1, 1);
      EXPECT_EQ(pager.show(region.id, 1, 1), 0);
    }
    client.kill_now();
    EXPECT_EQ(pager.evict(region.id, 1, 2), 0);
    // Nobody asks again for a chunk that was asked for: hiding what is absent changes nothing.
    EXPECT_EQ(pager.poison(region.id, 1, 2), 0);
    EXPECT_EQ(pager.evict(region.id, 1, 2), 0);
  }
  EXPECT_GE(pager.counters().waits_killed, 20u);
  EXPECT_EQ(view.word(0), expected_word(region.id, 0));
}

TEST_F(Module, TheLastDescriptorOfARegionTakesItsChunksAlong) {
  ModulePager pager;
  const auto region = pager.add_region(chunk2m);
  pager.fill(region.id, 0, 0);
  ASSERT_EQ(pager.show(region.id, 0, 0), 0);
  EXPECT_EQ(pager.release(0), EBUSY);
  ::close(region.fd);
  EXPECT_EQ(pager.evict(region.id, 0), ENOENT);
  EXPECT_EQ(pager.release(0), 0);
}

// ---- Against a model, and against nonsense ----

TEST_F(Module, TenThousandRandomOperationsAgainstAModel) {
  constexpr uint32_t chunks = 12, slots = 6;
  for (const uint32_t shift : {16u, 21u}) {
    ModulePager pager({.chunk_shift = shift, .slots = slots});
    const auto region = pager.add_region(chunks * pager.chunk_bytes());
    const View view(region.fd, chunks * pager.chunk_bytes());
    enum class State { absent, shown, poisoned };
    struct {
      State state = State::absent;
      uint32_t slot = 0;
    } model[chunks];
    bool is_used[slots] = {};
    std::mt19937 random(7);
    const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
    for (int step = 0; step < 5000; ++step) {
      const uint32_t chunk = below(chunks), slot = below(slots);
      auto& it = model[chunk];
      switch (below(6)) {
        case 0: {
          if (!is_used[slot]) pager.fill(region.id, chunk, slot);
          const int expected = it.state == State::shown ? EEXIST : is_used[slot] ? EBUSY : 0;
          ASSERT_EQ(pager.show(region.id, chunk, slot), expected) << step;
          if (expected == 0) it = {State::shown, slot}, is_used[slot] = true;
          break;
        }
        case 1:
        case 2: {
          const bool is_poison = below(3) == 0;
          ASSERT_EQ(is_poison ? pager.poison(region.id, chunk) : pager.evict(region.id, chunk), 0);
          if (it.state == State::shown) is_used[it.slot] = false;
          it.state = is_poison ? State::poisoned : State::absent;
          break;
        }
        case 3:
          ASSERT_EQ(pager.release(slot), is_used[slot] ? EBUSY : 0) << step;
          break;
        default: {
          const uint64_t page = chunk * pager.pages_per_chunk() +
                                below(static_cast<uint32_t>(pager.pages_per_chunk()));
          if (it.state == State::shown) {
            ASSERT_EQ(try_word(view.page(page)), expected_word(region.id, page)) << step;
          } else if (it.state == State::poisoned) {
            ASSERT_FALSE(try_word(view.page(page))) << step;
          } else {
            std::optional<uint64_t> word = 1;
            std::thread toucher([&] { word = try_word(view.page(page)); });
            const auto event = pager.next_event();
            ASSERT_TRUE(event && event->page == page) << step;
            ASSERT_EQ(pager.poison(region.id, chunk), 0);
            toucher.join();
            ASSERT_FALSE(word);
            it.state = State::poisoned;
          }
        }
      }
    }
    EXPECT_EQ(pager.counters().slots_replaced, 0u);
  }
}

TEST_F(Module, ManyThreadsTouchWhileEverythingComesAndGoes) {
  ModulePager pager({.slots = 3});
  const auto region = pager.add_region(8 * chunk2m);
  const View one(region.fd, 8 * chunk2m), two(region.fd, 8 * chunk2m);
  pager.serve();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> touchers;
  for (unsigned seed = 0; seed < 4; ++seed) {
    touchers.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 400; ++i) {
        const uint64_t page = random() % 4096;
        wrong += (seed % 2 == 0 ? one : two).word(page) == expected_word(region.id, page) ? 0 : 1;
      }
    });
  }
  for (auto& toucher : touchers) toucher.join();
  EXPECT_EQ(wrong, 0);
}

// Arguments near the truth, which go further than those that are all wrong.
uint32_t odd_number(std::mt19937& random) {
  constexpr uint32_t odd[] = {0,  1,  2,  7,    8,    9,        15,       16,         17,
                              21, 22, 64, 4095, 4096, 1u << 20, 1u << 24, 0x7fffffff, 0xffffffff};
  return odd[random() % std::size(odd)];
}

// Somewhere in the ring, or in what the file has of memory.
void map_and_touch(std::mt19937& random, int target, bool has_ring, const uint32_t* words) {
  const uint64_t offset =
      random() % 3 == 0 ? WP_RING_OFFSET + words[0] % 4 * page_bytes : words[1] % 512 * page_bytes;
  const uint64_t length = (1 + random() % 600) * page_bytes;
  const bool is_writable = random() % 2 == 0;
  void* got =
      mmap(nullptr, length, is_writable ? PROT_READ | PROT_WRITE : PROT_READ,
           random() % 2 == 0 ? MAP_SHARED : MAP_PRIVATE, target, static_cast<off_t>(offset));
  if (got == MAP_FAILED) return;
  for (int touch = 0; touch < 4; ++touch)
    try_word(static_cast<std::byte*>(got) + random() % length / page_bytes * page_bytes);
  // The ring is the pager's to spoil.
  if (has_ring && is_writable && offset >= WP_RING_OFFSET && random() % 4 == 0)
    std::memset(got, static_cast<int>(random()), random() % 64);
  munmap(got, length);
}

void fuzz(unsigned seed, int calls) {
  std::mt19937 random(seed);
  constexpr unsigned long commands[] = {WP_IOC_SETUP, WP_IOC_ADD_REGION, WP_IOC_SHOW,
                                        WP_IOC_HIDE,  WP_IOC_POISON,     WP_IOC_RELEASE};
  int fd = -1;
  std::vector<int> regions;
  for (int i = 0; i < calls; ++i) {
    if (fd < 0 || random() % 200 == 0) {
      ::close(fd);
      for (const int region : regions) ::close(region);
      regions.clear();
      fd = ::open("/dev/weightpager", O_RDWR | O_CLOEXEC);
      check(fd >= 0, "open");
      wp_setup setup = {.version = WP_ABI_VERSION,
                        .chunk_shift = 16 + static_cast<uint32_t>(random() % 6),
                        .slots = 8,
                        .events = 8,
                        .timeout_ms = 5};
      if (random() % 8 != 0) ioctl(fd, WP_IOC_SETUP, &setup);
    }
    uint32_t words[16];
    for (uint32_t& word : words)
      word = random() % 2 == 0 ? odd_number(random) : static_cast<uint32_t>(random() % 10);
    wp_run runs[4];
    for (wp_run& run : runs)
      run = {odd_number(random) % 4, odd_number(random) % 40, odd_number(random) % 10,
             odd_number(random) % 40};
    wp_runs batch = {.runs = reinterpret_cast<uintptr_t>(runs),
                     .count = static_cast<uint32_t>(random() % 5)};
    wp_region_add add = {.chunks =
                             random() % 4 == 0 ? words[0] : static_cast<uint32_t>(random() % 100)};
    switch (random() % 8) {
      case 0:
        ioctl(fd, commands[random() % std::size(commands)],
              random() % 2 == 0 ? words : reinterpret_cast<void*>(words[0] * 4096ul));
        break;
      case 1:
        if (regions.size() < 50 && ioctl(fd, WP_IOC_ADD_REGION, &add) == 0)
          regions.push_back(add.fd);
        break;
      case 2:
      case 3:
        ioctl(fd, commands[2 + random() % 3], &batch);
        break;
      case 4: {
        const int target =
            regions.empty() || random() % 2 == 0 ? fd : regions[random() % regions.size()];
        map_and_touch(random, target, target == fd, words);
        break;
      }
      case 5:
        ioctl(regions.empty() ? fd : regions.back(), random(), words);
        break;
      case 6:
        if (!regions.empty() && random() % 4 == 0) ::close(regions.back()), regions.pop_back();
        break;
      default:
        ioctl(fd, random(), random());
    }
  }
  ::close(fd);
  for (const int region : regions) ::close(region);
}

int fuzz_calls() {
  const char* text = std::getenv("WEIGHTPAGER_FUZZ_CALLS");
  return text == nullptr ? 3000 : std::atoi(text);
}

TEST_F(Module, NonsenseAsRoot) {
  Child child([] {
    fuzz(1, fuzz_calls());
    return 0;
  });
  EXPECT_EQ(child.wait_for_end(), 0);
}

TEST_F(Module, NonsenseAsNobodyWhoMayOpenIt) {
  ASSERT_EQ(chmod("/dev/weightpager", 0666), 0);
  Child child([] {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
    fuzz(2, fuzz_calls());
    return 0;
  });
  EXPECT_EQ(child.wait_for_end(), 0);
  ASSERT_EQ(chmod("/dev/weightpager", 0600), 0);
  Child outsider([] {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
    return ::open("/dev/weightpager", O_RDWR) < 0 && errno == EACCES ? 0 : 2;
  });
  EXPECT_EQ(outsider.wait_for_end(), 0);
}

}  // namespace
}  // namespace weightpager::kmod_test
