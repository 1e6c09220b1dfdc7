// What a fault's message says of where it happened.
#include "pager/fault/userfaultfd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "pager/base/units.h"
#include "pager/fault/held_wakes.h"
#include "tests/pager/lacks.h"

namespace weightpager::fault {
namespace {

TEST(Userfaultfd, TellsWhichByteWasTouched) {
  WP_SKIP_FOR(lack_of_userfaultfd(UFFD_FEATURE_EXACT_ADDRESS,
                                  "no userfaultfd that tells exact addresses (Linux 5.18 does)"));
  auto uffd = Userfaultfd::open();
  ASSERT_TRUE(uffd) << uffd.error().message;
  constexpr uint64_t length_bytes = 4 * os_page_bytes;
  void* const memory =
      mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(memory);
  ASSERT_TRUE(uffd->register_range(bytes, length_bytes));

  std::byte* const touched = bytes + 2 * os_page_bytes + 1234;
  std::thread toucher([&] { (void)*const_cast<const volatile std::byte*>(touched); });
  pollfd ready{uffd->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 10'000), 1);
  std::array<Fault, 4> faults;
  EXPECT_EQ(uffd->read_faults(faults), 1u);
  EXPECT_EQ(faults[0].address, reinterpret_cast<uintptr_t>(touched));
  EXPECT_EQ(uffd->zero(bytes, length_bytes), Outcome::done);
  toucher.join();
  munmap(memory, length_bytes);
}

// More threads than there is room for, each at a page of its own that touches no other's, and then
// once more at pages side by side.
TEST(Userfaultfd, WakesThatAreHeldComeAtTheEnd) {
  WP_SKIP_FOR(lack_of_userfaultfd());
  constexpr size_t threads = 40;
  constexpr uint64_t length_bytes = 2 * threads * os_page_bytes;
  for (const uint64_t apart : {2 * os_page_bytes, os_page_bytes}) {
    auto uffd = Userfaultfd::open();
    ASSERT_TRUE(uffd) << uffd.error().message;
    auto* const bytes = static_cast<std::byte*>(
        mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(bytes, MAP_FAILED);
    ASSERT_TRUE(uffd->register_range(bytes, length_bytes));
    const std::vector<std::byte> page(os_page_bytes, std::byte{7});
    std::atomic<size_t> awake = 0;
    std::vector<std::thread> touchers;
    for (size_t i = 0; i < threads; ++i) {
      touchers.emplace_back([&, i] {
        const std::byte seen = *const_cast<const volatile std::byte*>(bytes + i * apart);
        EXPECT_EQ(seen, std::byte{7});
        ++awake;
      });
    }
    for (size_t waiting = 0; waiting < threads;) {
      pollfd ready{uffd->fd(), POLLIN, 0};
      ASSERT_EQ(poll(&ready, 1, 10'000), 1);
      std::array<Fault, 64> faults;
      waiting += uffd->read_faults(faults);
    }
    {
      const HeldWakes held(*uffd);
      EXPECT_EQ(uffd->copy(bytes, page.data(), os_page_bytes), Outcome::done);
      uffd->wake(bytes, os_page_bytes);
      EXPECT_EQ(awake, 0u) << "nobody is woken before the end";
      for (size_t i = 1; i < threads; ++i) {
        EXPECT_EQ(uffd->copy(bytes + i * apart, page.data(), os_page_bytes), Outcome::done);
      }
    }
    for (std::thread& toucher : touchers) toucher.join();
    EXPECT_EQ(awake, threads);
    munmap(bytes, length_bytes);
  }
}

}  // namespace
}  // namespace weightpager::fault
