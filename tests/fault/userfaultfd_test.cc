// What a fault's message says of where it happened.
#include "pager/fault/userfaultfd.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <thread>

#include "pager/base/units.h"
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

}  // namespace
}  // namespace weightpager::fault
