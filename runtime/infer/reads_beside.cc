// See reads_beside.h.
#include "runtime/infer/reads_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <span>
#include <utility>

#include "pager/base/assert.h"
#include "pager/io/open_reader.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/pipeline/read_line.h"

namespace weightpager::infer {
namespace {

using pipeline::Action;
using pipeline::Schedule;
using pipeline::UnitNumber;
using telemetry::monotonic_ns;

/// Reads of ours; the executor's own are numbers of units.
constexpr uint64_t beside_tag = uint64_t{1} << 63;

// What is pinned is not read in any inference that counts.
std::vector<pipeline::WorkUnit> streamed_units(std::span<const pipeline::UnitBytes> units) {
  std::vector<pipeline::WorkUnit> streamed;
  for (const pipeline::UnitBytes& it : units) {
    streamed.push_back({.size_bytes = it.is_pinned ? 0 : it.length_bytes});
  }
  return streamed;
}

}  // namespace

class ReadsBeside::PacedReader final : public io::Reader {
 public:
  PacedReader(ReadsBeside& plan, std::unique_ptr<io::Reader> real, Schedule schedule,
              uint32_t reads_max)
      : plan_(plan), real_(std::move(real)), schedule_(std::move(schedule)), begun_(plan.begun_) {
    completions_.reserve(reads_max);
  }

  void start(const io::Read& read) override { real_->start(read); }
  io::Wakeup wait(int64_t timeout_ns) override;
  uint32_t reads_in_flight() const override { return real_->reads_in_flight() - in_flight_; }
  const char* name() const override { return real_->name(); }

 private:
  io::Wakeup sleep();
  void go_on();
  void start_actions();
  void take(const io::Completion& completion);

  ReadsBeside& plan_;
  const std::unique_ptr<io::Reader> real_;
  Schedule schedule_;
  uint64_t begun_;
  uint64_t start_ns_ = 0;
  pipeline::ReadLine read_line_;
  std::deque<UnitNumber> kernels_;
  uint32_t in_flight_ = 0;
  std::vector<io::Completion> completions_;  // of the executor's reads
};

// A clock that has struck looks like nothing to the executor, so the sleep goes on.
io::Wakeup ReadsBeside::PacedReader::wait(int64_t timeout_ns) {
  WP_ASSERT(timeout_ns < 0);
  for (;;) {
    go_on();
    const io::Wakeup wakeup = sleep();
    completions_.clear();
    for (const io::Completion& it : wakeup.completions) {
      if (it.tag & beside_tag) {
        take(it);
      } else {
        completions_.push_back(it);
      }
    }
    if (!completions_.empty() || wakeup.watched_fd_readable) {
      return {completions_, wakeup.watched_fd_readable};
    }
  }
}

// As the executor would: until the kernel ends that the schedule waits for.
io::Wakeup ReadsBeside::PacedReader::sleep() {
  const pipeline::Rest rest = schedule_.rest();
  int64_t timeout_ns = -1;
  if (!kernels_.empty() && rest.until <= kernels_.back()) {
    const uint64_t now_ns = monotonic_ns();
    const uint64_t end_ns = start_ns_ + plan_.ends_ns_[schedule_.index(rest.until)];
    timeout_ns = end_ns > now_ns ? static_cast<int64_t>(end_ns - now_ns) : 0;
  }
  const bool is_executor_idle = reads_in_flight() == 0;
  return rest.ignores_reads && read_line_.is_empty() && is_executor_idle ? real_->doze(timeout_ns)
                                                                         : real_->wait(timeout_ns);
}

// Ends the kernels whose time has come and starts the reads that have room then.
void ReadsBeside::PacedReader::go_on() {
  if (begun_ != plan_.begun_) {
    begun_ = plan_.begun_;
    start_ns_ = monotonic_ns();
    schedule_.start_inference();
  }
  for (;;) {
    start_actions();
    if (kernels_.empty()) break;
    const uint64_t end_ns = start_ns_ + plan_.ends_ns_[schedule_.index(kernels_.front())];
    if (end_ns > monotonic_ns()) return;
    schedule_.on_kernel_finished(kernels_.front());
    kernels_.pop_front();
  }
  if (schedule_.inferences_finished() == plan_.finished_) return;
  plan_.finished_ = schedule_.inferences_finished();
  plan_.finished_.notify_all();
}

void ReadsBeside::PacedReader::start_actions() {
  for (Action it = schedule_.next(); it.kind != Action::Kind::none; it = schedule_.next()) {
    if (it.kind == Action::Kind::read) {
      read_line_.put({it.unit, plan_.units_[schedule_.index(it.unit)].length_bytes, it.to});
    }
    if (it.kind == Action::Kind::kernel) kernels_.push_back(it.unit);
  }
  for (; read_line_.may_take() && real_->reads_in_flight() < pipeline::ReadLine::reads_max;
       ++in_flight_) {
    const pipeline::ReadLine::UnitRead read = read_line_.take();
    const pipeline::UnitBytes& unit = plan_.units_[schedule_.index(read.unit)];
    real_->start({.tag = read.unit | beside_tag,
                  .fd = plan_.file_.fd(),
                  .offset_bytes = unit.offset_bytes,
                  .length_bytes = static_cast<uint32_t>(unit.length_bytes),
                  .buffer = plan_.ring_.at(read.to.offset_bytes)});
  }
}

void ReadsBeside::PacedReader::take(const io::Completion& completion) {
  const UnitNumber unit = completion.tag & ~beside_tag;
  --in_flight_;
  read_line_.on_finished(plan_.units_[schedule_.index(unit)].length_bytes);
  plan_.read_bytes_ += completion.length_bytes;
  if (completion.length_bytes < plan_.units_[schedule_.index(unit)].needed_bytes) {
    plan_.error_number_ = completion.error_number != 0 ? completion.error_number : ENODATA;
  }
  schedule_.on_read_finished(unit);
}

ReadsBeside::ReadsBeside(io::ModelFile file, const std::string& path, const WindowUse& window)
    : file_(std::move(file)), path_(path), units_(window.units), rings_(window.rings) {
  uint64_t end_ns = 0;
  for (const pipeline::UnitCosts& it : window.costs) ends_ns_.push_back(end_ns += it.kernel_ns);
}

Result<std::unique_ptr<ReadsBeside>> ReadsBeside::make(const std::string& weights_path,
                                                       const WindowUse& window) {
  auto file = io::ModelFile::open(weights_path);
  if (!file) return forward_error(std::move(file));
  std::unique_ptr<ReadsBeside> it(new ReadsBeside(std::move(*file), weights_path, window));
  auto ring = pipeline::MirroredRing::make(window.rings.host_bytes);
  if (!ring) return forward_error(std::move(ring));
  it->ring_ = std::move(*ring);
  return it;
}

Result<std::unique_ptr<io::Reader>> ReadsBeside::open_reader(const io::ReaderOptions& options) {
  auto real = io::open_best_reader(options);
  if (!real) return real;
  auto schedule = Schedule::make(streamed_units(units_), {.rings = rings_});
  if (!schedule) return forward_error(std::move(schedule));
  begun_ = finished_ = 0;
  error_number_ = 0;
  return std::make_unique<PacedReader>(*this, std::move(*real), std::move(*schedule),
                                       options.reads_max);
}

void ReadsBeside::begin() { ++begun_; }

Status ReadsBeside::finish() {
  for (uint64_t passes = finished_; passes < begun_; passes = finished_) finished_.wait(passes);
  const int error_number = error_number_.exchange(0);
  if (error_number == 0) return {};
  return fail(fmt::format("{}: {}", path_, std::strerror(error_number)),
              "the disk or its connection failed: `dmesg` may say more; copy the file to another "
              "disk, or fetch it anew",
              error_number);
}

}  // namespace weightpager::infer
