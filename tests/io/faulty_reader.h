// A reader that goes wrong on purpose, around a real one.
//
// What a disk can do to a pager: fail, deliver less than there should be, take seconds, never
// answer. A plan says of each read which of these befalls it; everything else goes through to the
// real reader. What short answers and interruptions of single requests do is tested one storey
// below, with an AnswerFilter (read_table.h); here completions are final.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "pager/io/reader.h"

namespace weightpager::io {

struct Fault {
  enum class Kind {
    none,
    /// Completes with `error_number`, after `length_bytes` have arrived.
    error,
    /// Completes without an error after `length_bytes`: the file is shorter than was said.
    cut,
    /// Completes `delay_ns` after it was started, or later.
    late,
    /// Completes some time after `release_hung`, if ever.
    hang,
  };
  Kind kind = Kind::none;
  int error_number = 0;
  uint32_t length_bytes = 0;
  int64_t delay_ns = 0;
};

/// What happens to the reader's read `number` (from 0 on). Called by `start`, in its thread.
using FaultPlan = std::function<Fault(uint64_t number, const Read& read)>;

/// The same for the reader's write `number`. A write that meets a fault other than `late` and
/// `hang` has been carried out as a whole all the same.
using WriteFaultPlan = std::function<Fault(uint64_t number, const Write& write)>;

/// Read `number` (from 0 on) meets `fault`.
FaultPlan at_read(uint64_t number, const Fault& fault);

/// A device that ends at `size_bytes`, whatever the file's size is.
FaultPlan device_ends_at(uint64_t size_bytes);

/// Used by one thread like any reader; only `release_hung` may be called by others.
class FaultyReader final : public Reader {
 public:
  /// `reads_max` as the real reader was opened with.
  FaultyReader(std::unique_ptr<Reader> real, uint32_t reads_max, FaultPlan plan,
               WriteFaultPlan write_plan = {});

  void start(const Read& read) override;
  void start_write(const Write& write) override;
  Wakeup wait(int64_t timeout_ns) override;
  uint32_t reads_in_flight() const override;
  const char* name() const override { return real_->name(); }

  /// Reads that hang are carried out, and none hangs from now on.
  void release_hung() { is_released_ = true; }

 private:
  struct Row {
    std::variant<Read, Write> asked;
    Fault fault;
    int64_t due_ns = 0;
    enum class State { free, reading, hanging, delayed } state = State::free;
    Completion completion;
  };

  void take_on(const std::variant<Read, Write>& asked, const Fault& fault);
  void start_hung_if_released();
  void start_real(Row& row);
  void take(const Completion& completion);
  void finish_due();
  void finish(Row& row);
  /// Until the next thing that this reader itself has to do.
  int64_t sleep_ns_max() const;

  std::unique_ptr<Reader> real_;
  FaultPlan plan_;
  WriteFaultPlan write_plan_;
  uint64_t reads_started_ = 0;
  uint64_t writes_started_ = 0;
  std::vector<Row> rows_;
  std::vector<Completion> completions_;
  std::atomic<bool> is_released_{false};
};

/// For `open_reader` of whatever has such an option: pread, going wrong as planned. Without a plan
/// nothing goes wrong.
std::function<Result<std::unique_ptr<Reader>>(const ReaderOptions&)> faulty_pread(
    FaultPlan plan, WriteFaultPlan write_plan = {});

}  // namespace weightpager::io
