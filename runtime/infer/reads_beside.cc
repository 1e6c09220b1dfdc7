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
      : plan_(plan), real_(std::move(real)), schedule_(std::move(schedule)) {
    completions_.reserve(reads_max);
    plan_.reader_ = this;
  }
  ~PacedReader() override { plan_.reader_ = nullptr; }

  void start(const io::Read& read) override { real_->start(read); }
  io::Wakeup wait(int64_t timeout_ns) override;
  uint32_t reads_in_flight() const override { return real_->reads_in_flight() - in_flight_; }
  const char* name() const override { return real_->name(); }

  void begin();
  void finish();

 private:
  void look(int64_t timeout_ns);
  void go_on();
  void start_actions();
  void take(const io::Completion& completion);

  ReadsBeside& plan_;
  const std::unique_ptr<io::Reader> real_;
  Schedule schedule_;
  uint64_t begun_ = 0;
  uint64_t start_ns_ = 0;
  pipeline::ReadLine read_line_;
  std::deque<UnitNumber> kernels_;
  uint32_t in_flight_ = 0;
  std::vector<io::Completion> completions_;  // of the executor's reads
};

// The executor calls it when a kernel has ended, and when it lacks a read of its own.
io::Wakeup ReadsBeside::PacedReader::wait(int64_t timeout_ns) {
  completions_.clear();
  do {
    look(timeout_ns);
  } while (timeout_ns != 0 && completions_.empty());
  return {completions_, false};
}

void ReadsBeside::PacedReader::look(int64_t timeout_ns) {
  go_on();
  for (const io::Completion& it : real_->wait(timeout_ns).completions) {
    if (it.tag & beside_tag) {
      take(it);
    } else {
      completions_.push_back(it);
    }
  }
}

void ReadsBeside::PacedReader::begin() {
  ++begun_;
  start_ns_ = monotonic_ns();
  schedule_.start_inference();
}

void ReadsBeside::PacedReader::finish() {
  for (go_on(); schedule_.inferences_finished() < begun_; go_on()) look(in_flight_ > 0 ? -1 : 0);
}

// Ends the kernels whose time has come and starts the reads that have room then.
void ReadsBeside::PacedReader::go_on() {
  for (;;) {
    start_actions();
    if (kernels_.empty()) return;
    const uint64_t end_ns = start_ns_ + plan_.ends_ns_[schedule_.index(kernels_.front())];
    if (end_ns > monotonic_ns()) return;
    schedule_.on_kernel_finished(kernels_.front());
    kernels_.pop_front();
  }
}

void ReadsBeside::PacedReader::start_actions() {
  for (Action it = schedule_.next(); it.kind != Action::Kind::none; it = schedule_.next()) {
    if (it.kind == Action::Kind::read) {
      read_line_.put({it.unit, plan_.units_[schedule_.index(it.unit)].length_bytes, it.to});
    }
    if (it.kind == Action::Kind::kernel) kernels_.push_back(it.unit);
  }
  const uint64_t at_once_bytes =
      kernels_.empty() ? pipeline::ReadLine::bytes_under_way_max : UINT64_MAX;
  for (; read_line_.may_take(at_once_bytes) &&
         real_->reads_in_flight() < pipeline::ReadLine::reads_max;
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
  error_number_ = 0;
  return std::make_unique<PacedReader>(*this, std::move(*real), std::move(*schedule),
                                       options.reads_max);
}

void ReadsBeside::begin() {
  WP_ASSERT(reader_ != nullptr);
  reader_->begin();
}

Status ReadsBeside::finish() {
  reader_->finish();
  const int error_number = std::exchange(error_number_, 0);
  if (error_number == 0) return {};
  return fail(fmt::format("{}: {}", path_, std::strerror(error_number)),
              "the disk or its connection failed: `dmesg` may say more; copy the file to another "
              "disk, or fetch it anew",
              error_number);
}

}  // namespace weightpager::infer
