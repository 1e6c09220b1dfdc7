#include "tests/io/faulty_reader.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "pager/base/assert.h"
#include "pager/io/deadline.h"

namespace weightpager::io {
namespace {

// How soon a release is noticed.
constexpr int64_t release_poll_ns = 5'000'000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

FaultPlan device_ends_at(uint64_t size_bytes) {
  return [size_bytes](uint64_t, const Read& read) -> Fault {
    if (read.offset_bytes + read.length_bytes <= size_bytes) return {};
    const uint64_t left_bytes = std::max(size_bytes, read.offset_bytes) - read.offset_bytes;
    return {.kind = Fault::Kind::cut, .length_bytes = static_cast<uint32_t>(left_bytes)};
  };
}

FaultyReader::FaultyReader(std::unique_ptr<Reader> real, uint32_t reads_max, FaultPlan plan,
                           WriteFaultPlan write_plan)
    : real_(std::move(real)),
      plan_(std::move(plan)),
      write_plan_(std::move(write_plan)),
      rows_(reads_max) {
  completions_.reserve(reads_max);
}

void FaultyReader::start(const Read& read) {
  take_on(read, plan_ ? plan_(reads_started_++, read) : Fault{});
}

void FaultyReader::start_write(const Write& write) {
  take_on(write, write_plan_ ? write_plan_(writes_started_++, write) : Fault{});
}

void FaultyReader::take_on(const std::variant<Read, Write>& asked, const Fault& fault) {
  const auto row = std::find_if(rows_.begin(), rows_.end(),
                                [](const Row& it) { return it.state == Row::State::free; });
  WP_ASSERT(row != rows_.end());
  *row = Row{.asked = asked, .fault = fault};
  row->due_ns = now_ns() + row->fault.delay_ns;
  if (row->fault.kind == Fault::Kind::hang && !is_released_) {
    row->state = Row::State::hanging;
    return;
  }
  start_real(*row);
}

void FaultyReader::start_real(Row& row) {
  row.state = Row::State::reading;
  const auto tag = static_cast<uint64_t>(&row - rows_.data());
  if (const auto* write = std::get_if<Write>(&row.asked)) {
    Write renamed = *write;
    renamed.tag = tag;
    return real_->start_write(renamed);
  }
  Read renamed = std::get<Read>(row.asked);
  renamed.tag = tag;
  real_->start(renamed);
}

Wakeup FaultyReader::wait(int64_t timeout_ns) {
  const Deadline deadline(timeout_ns);
  completions_.clear();
  for (;;) {
    start_hung_if_released();
    finish_due();
    int64_t sleep_ns = completions_.empty() ? sleep_ns_max() : 0;
    if (!deadline.is_unlimited()) sleep_ns = std::min(sleep_ns, deadline.remaining_ns());
    const bool is_unlimited = sleep_ns == std::numeric_limits<int64_t>::max();
    const Wakeup wakeup = real_->wait(is_unlimited ? -1 : sleep_ns);
    for (const Completion& completion : wakeup.completions) take(completion);
    finish_due();
    if (!completions_.empty() || wakeup.watched_fd_readable || deadline.has_passed())
      return {completions_, wakeup.watched_fd_readable};
  }
}

uint32_t FaultyReader::reads_in_flight() const {
  return static_cast<uint32_t>(std::count_if(
      rows_.begin(), rows_.end(), [](const Row& it) { return it.state != Row::State::free; }));
}

void FaultyReader::start_hung_if_released() {
  if (!is_released_) return;
  for (Row& row : rows_) {
    if (row.state == Row::State::hanging) start_real(row);
  }
}

void FaultyReader::take(const Completion& completion) {
  Row& row = rows_.at(completion.tag);
  row.completion = completion;
  row.completion.tag = std::visit([](const auto& asked) { return asked.tag; }, row.asked);
  const Fault& fault = row.fault;
  if (fault.kind == Fault::Kind::error || fault.kind == Fault::Kind::cut) {
    row.completion.length_bytes = std::min(completion.length_bytes, fault.length_bytes);
    if (fault.kind == Fault::Kind::error) row.completion.error_number = fault.error_number;
  }
  if (fault.kind != Fault::Kind::late) return finish(row);
  row.state = Row::State::delayed;
}

void FaultyReader::finish_due() {
  for (Row& row : rows_) {
    if (row.state == Row::State::delayed && row.due_ns <= now_ns()) finish(row);
  }
}

void FaultyReader::finish(Row& row) {
  row.state = Row::State::free;
  completions_.push_back(row.completion);
}

int64_t FaultyReader::sleep_ns_max() const {
  int64_t sleep_ns = std::numeric_limits<int64_t>::max();
  for (const Row& row : rows_) {
    if (row.state == Row::State::hanging) sleep_ns = std::min(sleep_ns, release_poll_ns);
    if (row.state == Row::State::delayed)
      sleep_ns = std::min(sleep_ns, std::max<int64_t>(0, row.due_ns - now_ns()));
  }
  return sleep_ns;
}

FaultPlan at_read(uint64_t number, const Fault& fault) {
  return [=](uint64_t at, const Read&) { return at == number ? fault : Fault{}; };
}

std::function<Result<std::unique_ptr<Reader>>(const ReaderOptions&)> faulty_pread(
    FaultPlan plan, WriteFaultPlan write_plan) {
  return [plan, write_plan](const ReaderOptions& options) -> Result<std::unique_ptr<Reader>> {
    auto real = open_pread_reader(options);
    if (!real) return real;
    return std::make_unique<FaultyReader>(std::move(*real), options.reads_max, plan, write_plan);
  };
}

}  // namespace weightpager::io
