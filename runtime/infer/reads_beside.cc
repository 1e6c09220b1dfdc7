// See reads_beside.h.
#include "runtime/infer/reads_beside.h"

#include <algorithm>
#include <span>
#include <utility>

#include "pager/io/open_reader.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/pipeline/unit_read.h"

namespace weightpager::infer {
namespace {

using pipeline::ReadLine;
using pipeline::Schedule;
using pipeline::ScheduleAction;
using pipeline::UnitNumber;
using telemetry::monotonic_ns;

// Pinned units have size 0 here: no inference that counts reads them.
std::vector<pipeline::WorkUnit> streamed_units(std::span<const pipeline::UnitBytes> units) {
  std::vector<pipeline::WorkUnit> streamed;
  for (const pipeline::UnitBytes& it : units) {
    streamed.push_back({.size_bytes = it.is_pinned ? 0 : it.length_bytes});
  }
  return streamed;
}

}  // namespace

ReadsBeside::ReadsBeside(io::ModelFile file, const std::string& path, const WindowUse& window,
                         Schedule schedule)
    : file_(std::move(file)), path_(path), units_(window.units), schedule_(std::move(schedule)) {
  uint64_t end_ns = 0;
  for (const pipeline::UnitCosts& it : window.costs) ends_ns_.push_back(end_ns += it.kernel_ns);
}

Result<std::unique_ptr<ReadsBeside>> ReadsBeside::make(const std::string& weights_path,
                                                       const WindowUse& window) {
  auto file = io::ModelFile::open(weights_path);
  if (!file) return forward_error(std::move(file));
  auto schedule = Schedule::make(streamed_units(window.units), {.rings = window.rings});
  if (!schedule) return forward_error(std::move(schedule));
  std::unique_ptr<ReadsBeside> it(
      new ReadsBeside(std::move(*file), weights_path, window, std::move(*schedule)));
  auto ring = pipeline::MirroredRing::make(window.rings.host_bytes);
  if (!ring) return forward_error(std::move(ring));
  it->ring_ = std::move(*ring);
  auto reader = io::open_best_reader(
      pipeline::reader_options(window.units, io::device_limits(it->file_.fd()).read_bytes));
  if (!reader) return forward_error(std::move(reader));
  it->reader_ = std::move(*reader);
  return it;
}

void ReadsBeside::begin() {
  ++begun_;
  start_ns_ = monotonic_ns();
  schedule_.start_inference();
}

void ReadsBeside::go_on() {
  if (schedule_.inferences_finished() < begun_) look(0);
}

Status ReadsBeside::finish() {
  while (schedule_.inferences_finished() < begun_) look(reader_->reads_in_flight() > 0 ? -1 : 0);
  return std::exchange(outcome_, {});
}

void ReadsBeside::look(int64_t timeout_ns) {
  end_kernels();
  if (reader_->reads_in_flight() == 0) return;
  for (const io::Completion& it : reader_->wait(timeout_ns).completions) take(it);
}

// Ends the kernels whose time has come. Reads that have room then are started.
void ReadsBeside::end_kernels() {
  for (;;) {
    start_actions();
    if (kernels_.empty()) return;
    const uint64_t end_ns = start_ns_ + ends_ns_[schedule_.index(kernels_.front())];
    if (end_ns > monotonic_ns()) return;
    schedule_.on_kernel_finished(kernels_.front());
    kernels_.pop_front();
  }
}

void ReadsBeside::start_actions() {
  for (ScheduleAction it = schedule_.next(); it.kind != ScheduleAction::Kind::none;
       it = schedule_.next()) {
    if (it.kind == ScheduleAction::Kind::read) {
      read_line_.put({it.unit, units_[schedule_.index(it.unit)].length_bytes, it.to});
    }
    if (it.kind == ScheduleAction::Kind::kernel) kernels_.push_back(it.unit);
  }
  const uint64_t at_once_bytes = kernels_.empty() ? ReadLine::bytes_under_way_max : UINT64_MAX;
  while (read_line_.may_take(at_once_bytes)) {
    const ReadLine::UnitRead read = read_line_.take();
    reader_->start(pipeline::read_of(read.unit, units_[schedule_.index(read.unit)], file_.fd(),
                                     ring_.at(read.to.offset_bytes)));
  }
}

void ReadsBeside::take(const io::Completion& completion) {
  const UnitNumber unit = completion.tag;
  const pipeline::UnitBytes& wanted = units_[schedule_.index(unit)];
  read_line_.on_finished(wanted.length_bytes);
  read_bytes_ += completion.length_bytes;
  if (pipeline::is_short(wanted, completion)) {
    outcome_ = tl::make_unexpected(pipeline::short_read(path_, wanted, completion));
  }
  schedule_.on_read_finished(unit);
}

}  // namespace weightpager::infer
