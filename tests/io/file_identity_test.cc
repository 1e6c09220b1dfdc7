#include "pager/io/file_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/io/pattern_file.h"

namespace weightpager::io {
namespace {

constexpr int64_t second_ns = 1'000'000'000;

struct stat facts_changed_at(int64_t ns) {
  struct stat facts {};
  facts.st_dev = 1;
  facts.st_ino = 2;
  facts.st_nlink = 1;
  facts.st_size = 3;
  facts.st_ctim = facts.st_mtim = {ns / second_ns, ns % second_ns};
  return facts;
}

TEST(FileIdentity, VouchesForNothingWithinATickOfTheLastChange) {
  constexpr int64_t changed_ns = 100 * second_ns + 5;
  const auto facts = facts_changed_at(changed_ns);
  const FileIdentity soon = identity_of(facts, changed_ns + 1'000'000);
  const FileIdentity later = identity_of(facts, changed_ns + 50'000'000);
  EXPECT_TRUE(soon.looks_like(later));
  EXPECT_FALSE(soon.holds_until(later));
  EXPECT_TRUE(later.holds_until(soon));
  // Where times are in whole seconds.
  const auto coarse = facts_changed_at(100 * second_ns);
  EXPECT_FALSE(identity_of(coarse, 101 * second_ns).is_settled);
  EXPECT_TRUE(identity_of(coarse, 104 * second_ns).is_settled);
  // A clock that was set back says nothing of changes from now on.
  EXPECT_TRUE(identity_of(facts, 10 * second_ns).is_settled);
}

TEST(FileIdentity, ATimeThatWasSetBackIsAChange) {
  const PatternFile file(8 * KiB);
  const int fd = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  const auto before = identity_of(fd);
  struct stat facts;
  ASSERT_EQ(fstat(fd, &facts), 0);
  usleep(20'000);  // a tick, where times have them
  ASSERT_EQ(pwrite(fd, "x", 1, 0), 1);
  const timespec times[] = {facts.st_atim, facts.st_mtim};
  ASSERT_EQ(futimens(fd, times), 0);
  const auto after = identity_of(fd);
  close(fd);
  ASSERT_TRUE(before && after);
  EXPECT_TRUE(before->is_of_file(*after));
  EXPECT_FALSE(before->was_written_until(*after));
  EXPECT_TRUE(before->may_have_other_bytes(*after));
  EXPECT_FALSE(before->looks_like(*after));
}

TEST(FileIdentity, ANameMoreIsNoOtherBytesForWhoUsesTheFile) {
  const PatternFile file(8 * KiB);
  const auto before = identity_of(file.fd());
  usleep(20'000);
  ASSERT_EQ(unlink(file.path().c_str()), 0);
  const auto after = identity_of(file.fd());
  ASSERT_TRUE(before && after);
  EXPECT_FALSE(before->may_have_other_bytes(*after));
  EXPECT_FALSE(before->looks_like(*after));
}

TEST(FileIdentity, ADescriptorThatIsNoneHasNone) { EXPECT_FALSE(identity_of(-1)); }

}  // namespace
}  // namespace weightpager::io
