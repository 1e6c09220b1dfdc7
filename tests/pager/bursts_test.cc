// A disk that answers all reads at once: the next reads begin before all of that is shown, or the
// disk would stand still meanwhile.
#include <gtest/gtest.h>

#include <utility>

#include "pager/io/reader.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

/// Keeps what is finished until all of it is, and watches what the pager does with it.
class BurstReader final : public io::Reader {
 public:
  BurstReader(std::unique_ptr<io::Reader> real, const telemetry::Telemetry& telemetry)
      : real_(std::move(real)), telemetry_(telemetry) {}

  void start(const io::Read& read) override {
    if (!has_started_) shown_at_start_ = telemetry_.shown_chunks;
    has_started_ = true;
    real_->start(read);
  }

  io::Wakeup wait(int64_t timeout_ns) override {
    if (is_burst_ && has_started_) bursts_cut_ += shown_at_start_ < telemetry_.shown_chunks;
    if (is_burst_) finished_.clear();
    const io::Wakeup wakeup = real_->wait(timeout_ns);
    finished_.insert(finished_.end(), wakeup.completions.begin(), wakeup.completions.end());
    is_burst_ = real_->reads_in_flight() == 0;
    has_started_ = false;
    return {
        is_burst_ ? std::span<const io::Completion>(finished_) : std::span<const io::Completion>(),
        wakeup.watched_fd_readable};
  }

  uint32_t reads_in_flight() const override {
    return real_->reads_in_flight() + (is_burst_ ? 0 : static_cast<uint32_t>(finished_.size()));
  }
  const char* name() const override { return real_->name(); }

  /// Bursts of which some chunks were shown only when other reads had begun.
  uint32_t bursts_cut() const { return bursts_cut_; }

 private:
  std::unique_ptr<io::Reader> real_;
  const telemetry::Telemetry& telemetry_;
  std::vector<io::Completion> finished_;
  bool is_burst_ = false;
  bool has_started_ = false;
  uint64_t shown_at_start_ = 0;
  uint32_t bursts_cut_ = 0;
};

class BurstsTest : public PagerTest {};

constexpr MapperAndChunk whole_chunks[] = {
    {"move", 2 * MiB}, {"collapse", 2 * MiB}, {"copy", 2 * MiB}};
INSTANTIATE_TEST_SUITE_P(Mappers, BurstsTest, ::testing::ValuesIn(whole_chunks), name_of);

TEST_P(BurstsTest, OtherReadsBeginBeforeAllIsShown) {
  const PatternFile file(96 * MiB);
  BurstReader* reader = nullptr;
  PagerOptions options;
  options.open_reader =
      [&](const io::ReaderOptions& wanted) -> Result<std::unique_ptr<io::Reader>> {
    auto real = io::open_pread_reader(wanted);
    if (!real) return real;
    auto bursts = std::make_unique<BurstReader>(std::move(*real), *telemetry_);
    reader = bursts.get();
    return bursts;
  };
  start(48 * MiB, options);
  if (!pager_) return;
  std::byte* const region = map(file);
  for (int pass = 0; pass < 6; ++pass) {
    for (uint64_t at = 0; at < file.size_bytes(); at += MiB) {
      ASSERT_EQ(load(region + at), word_at(at));
    }
  }
  pager_->remove(region, file.size_bytes());
  EXPECT_GE(reader->bursts_cut(), 3u);
}

}  // namespace
}  // namespace weightpager
