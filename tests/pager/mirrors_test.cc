// A model with copies on other drives: all of them are read, and whatever happens to some of them,
// the engine gets the model's bytes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/io/faulty_reader.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

using io::Fault;

constexpr uint64_t mirrored_file_bytes = 40 * MiB + 12345;
thread_local sigjmp_buf after_mirror_signal;

/// The file that a read is of.
ino_t inode_of(int fd) {
  struct stat facts {};
  fstat(fd, &facts);
  return facts.st_ino;
}
ino_t inode_of(const PatternFile& file) {
  struct stat facts {};
  stat(file.path().c_str(), &facts);
  return facts.st_ino;
}

/// Whether the word could be loaded; otherwise SIGBUS was raised.
bool can_load(const std::byte* address, uint64_t& word) {
  if (sigsetjmp(after_mirror_signal, 1) != 0) return false;
  word = *reinterpret_cast<const volatile uint64_t*>(address);
  return true;
}

class MirrorsTest : public PagerTest {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(lack_for_mapper(mapper()));
    telemetry_ = *telemetry::create("");
    struct sigaction action = {};
    action.sa_handler = [](int signal) { siglongjmp(after_mirror_signal, signal); };
    sigaction(SIGBUS, &action, &before_);
  }
  void TearDown() override {
    if (telemetry_ != nullptr) sigaction(SIGBUS, &before_, nullptr);
  }

  /// What befalls reads of the model's file, and those of its copy. Unless it is said, the model's
  /// come late, so that the copy's drive is the one that answers first.
  void start_with(io::FaultPlan of_model, io::FaultPlan of_copy) {
    PagerOptions options;
    options.open_reader =
        io::faulty_pread([this, of_model, of_copy](uint64_t number, const io::Read& read) -> Fault {
          const bool is_of_copy = inode_of(read.fd) == inode_of(copy_);
          const auto& plan = is_of_copy ? of_copy : of_model;
          if (plan) return plan(number, read);
          const bool is_late = !is_of_copy && telemetry_->copies_given_up == 0;
          return is_late ? Fault{.kind = Fault::Kind::late, .delay_ns = 2'000'000} : Fault{};
        });
    start(32 * MiB, options);
  }

  std::byte* map_with_copy() {
    RegionRequest request;
    request.path = request.name = model_.path();
    request.file = io::settled_identity_of(model_.path());
    request.length_bytes = model_.size_bytes();
    const model::Model in_order = model::in_file_order(model_.path(), model_.size_bytes());
    request.model = &in_order;
    request.copies = {{.original = *request.file,
                       .identity = *io::settled_identity_of(copy_.path()),
                       .path = copy_.path(),
                       .drive = 1}};
    auto address = pager_->add_region(request);
    EXPECT_TRUE(address) << address.error().message;
    return *address;
  }

  /// Touches every page. Returns how many raised SIGBUS; all others must have the model's words.
  static size_t check(const std::byte* region) {
    size_t refused = 0;
    for (uint64_t at = 0; at < mirrored_file_bytes - 8; at += os_page_bytes) {
      uint64_t word = 0;
      if (can_load(region + at, word)) {
        EXPECT_EQ(word, word_at(at)) << "offset " << at;
      } else {
        ++refused;
      }
    }
    return refused;
  }

  /// Passes until that has come about, and two more.
  template <typename Condition>
  static void check_until(const std::byte* region, Condition has_come) {
    while (!has_come()) EXPECT_EQ(check(region), 0u);
    for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(check(region), 0u);
  }
  bool is_copy_given_up() const { return telemetry_->copies_given_up > 0; }

  void unmap(std::byte* region) { pager_->remove(region, model_.size_bytes()); }

  PatternFile model_{mirrored_file_bytes};
  PatternFile copy_{mirrored_file_bytes};

 private:
  struct sigaction before_ {};
};

INSTANTIATE_TEST_SUITE_P(Mappers, MirrorsTest,
                         ::testing::Values(MapperAndChunk{"copy", 2 * MiB},
                                           MapperAndChunk{"copy", 128 * KiB},
                                           MapperAndChunk{"move", 2 * MiB}),
                         name_of);

Fault failing(uint64_t, const io::Read&) {
  return {.kind = Fault::Kind::error, .error_number = EIO};
}

/// The lines of `text` that have `part` in them.
size_t lines_with(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_P(MirrorsTest, BothDrivesAreRead) {
  start_with(nullptr, nullptr);
  std::byte* const region = map_with_copy();
  check_until(region, [&] { return telemetry_->mirror_1_read_bytes > 0; });
  const uint64_t of_copy_bytes = telemetry_->mirror_1_read_bytes;
  EXPECT_GT(of_copy_bytes, 0u);
  EXPECT_LT(of_copy_bytes, telemetry_->read_bytes);
  EXPECT_EQ(telemetry_->copies_given_up, 0u);
  unmap(region);
}

TEST_P(MirrorsTest, AMirrorThatFailsIsToldOnceAndReadNoMore) {
  testing::internal::CaptureStderr();
  start_with(nullptr, failing);
  std::byte* const region = map_with_copy();
  check_until(region, [&] { return is_copy_given_up(); });
  unmap(region);
  pager_.reset();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with(told, "failed: Input/output error (errno 5)"), 1u) << told;
  EXPECT_EQ(lines_with(told, copy_.path() + ": reading bytes"), 1u) << told;
  EXPECT_EQ(telemetry_->read_errors, 0u);
  EXPECT_EQ(telemetry_->copies_given_up, 1u);
}

TEST_P(MirrorsTest, TheMirrorServesOnWhenTheModelsDriveFails) {
  testing::internal::CaptureStderr();
  start_with(failing, nullptr);
  std::byte* const region = map_with_copy();
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(check(region), 0u);
  unmap(region);
  pager_.reset();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with(told, model_.path() + ": reading bytes"), 1u) << told;
  EXPECT_EQ(telemetry_->read_errors, 0u);
}

// Each has a hole where the other one has bytes, and there is one place that nobody has.
TEST_P(MirrorsTest, OnlyWhatNoDriveHasIsABusError) {
  const auto hole = [](uint64_t chunk_offset) {
    return [chunk_offset](uint64_t number, const io::Read& read) -> Fault {
      const auto is_in = [&](uint64_t at) {
        return read.offset_bytes <= at && at < read.offset_bytes + read.length_bytes;
      };
      return is_in(chunk_offset) || is_in(36 * MiB) ? failing(number, read) : Fault{};
    };
  };
  start_with(hole(8 * MiB), hole(20 * MiB));
  std::byte* const region = map_with_copy();
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(check(region), chunk_bytes() / os_page_bytes);
  EXPECT_EQ(telemetry_->read_errors, 1u);
  unmap(region);
}

TEST_P(MirrorsTest, AShortAnswerOfTheMirrorIsReadElsewhere) {
  start_with(nullptr, io::device_ends_at(10 * MiB));
  std::byte* const region = map_with_copy();
  check_until(region, [&] { return is_copy_given_up(); });
  EXPECT_EQ(telemetry_->read_errors, 0u);
  unmap(region);
}

TEST_P(MirrorsTest, AMirrorThatIsAlteredWhileItRunsIsReadNoMore) {
  testing::internal::CaptureStderr();
  start_with(nullptr, nullptr);
  std::byte* const region = map_with_copy();
  EXPECT_EQ(check(region), 0u);
  copy_.turn_over();
  check_until(region, [&] { return is_copy_given_up(); });
  unmap(region);
  pager_.reset();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with(told, copy_.path() + ": was changed while it was in use"), 1u) << told;
  EXPECT_EQ(telemetry_->copies_given_up, 1u);
}

TEST_P(MirrorsTest, AMirrorThatIsCutShortWhileItRunsIsReadNoMore) {
  start_with(nullptr, nullptr);
  std::byte* const region = map_with_copy();
  EXPECT_EQ(check(region), 0u);
  EXPECT_EQ(truncate(copy_.path().c_str(), MiB), 0);
  check_until(region, [&] { return is_copy_given_up(); });
  EXPECT_EQ(telemetry_->copies_given_up, 1u);
  EXPECT_EQ(telemetry_->read_errors, 0u);
  unmap(region);
}

TEST_P(MirrorsTest, AMirrorThatWasChangedSinceItsCheckIsNotUsed) {
  start_with(nullptr, nullptr);
  RegionRequest request;
  request.path = request.name = model_.path();
  request.file = io::settled_identity_of(model_.path());
  request.length_bytes = model_.size_bytes();
  const model::Model in_order = model::in_file_order(model_.path(), model_.size_bytes());
  request.model = &in_order;
  const auto checked = io::settled_identity_of(copy_.path());
  copy_.turn_over();
  request.copies = {{*request.file, *checked, copy_.path(), 1}};
  auto region = pager_->add_region(request);
  ASSERT_TRUE(region);
  EXPECT_EQ(check(*region), 0u);
  EXPECT_EQ(telemetry_->mirror_1_read_bytes, 0u);
  unmap(*region);
}

constexpr uint64_t count_pages = mirrored_file_bytes / os_page_bytes;

/// Pages that show what turn_over() has written; the others must show what was there before.
uint64_t count_new(const std::byte* region) {
  uint64_t count = 0;
  for (uint64_t page = 0; page < count_pages; ++page) {
    const uint64_t at = page * os_page_bytes;
    const uint64_t word = *reinterpret_cast<const volatile uint64_t*>(region + at);
    EXPECT_TRUE(word == word_at(at) || word == ~word_at(at)) << "offset " << at;
    if (word == ~word_at(at)) ++count;
  }
  return count;
}

// What the copy has is the former content.
TEST_P(MirrorsTest, NoCopyIsReadOnceTheModelWasChanged) {
  start_with(nullptr, nullptr);
  std::byte* const region = map_with_copy();
  EXPECT_EQ(check(region), 0u);
  model_.turn_over();
  // Until the pager has looked at the file twice, pages are of either version.
  while (count_new(region) < count_pages) continue;
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(count_new(region), count_pages);
  unmap(region);
}

}  // namespace
}  // namespace weightpager
