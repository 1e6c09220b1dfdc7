// An executor's reads. Units that the schedule wants read wait here in line. As many are read at
// once as keep the disk busy (read_line.h). They come out in the order of the line, whichever read
// the disk finishes first.
//
// A pass fails if a read brings too few bytes, or if the file was changed since it was opened.
//
// Only the driver uses this, except for `read_bytes` and `reader_name`, which any thread may call.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/reader.h"
#include "runtime/pipeline/executor.h"
#include "runtime/pipeline/read_line.h"
#include "runtime/pipeline/schedule.h"

namespace weightpager::pipeline {

class UnitReads {
 public:
  /// `units` and `options` outlive this.
  UnitReads(std::span<const UnitBytes> units, const ExecutorOptions& options);

  /// Opens the reader. `watched_fd` as in io::ReaderOptions; -1: nothing is watched.
  Status open(int watched_fd);

  void put(const ReadLine::UnitRead& read) { line_.put(read); }
  bool has_waiting() const { return !line_.is_empty(); }
  size_t in_flight() const { return reader_->reads_in_flight(); }
  /// The unit that comes out next, if one is being read or is here.
  std::optional<UnitNumber> first() const;

  /// Takes the next read out of the line. Nothing if the line is empty, or if the read has to wait
  /// because more than `under_way_max_bytes` would be under way.
  std::optional<ReadLine::UnitRead> take(uint64_t under_way_max_bytes);
  /// Starts the read that was taken.
  void start(UnitNumber unit, std::byte* buffer);

  /// As io::Reader: `wait` ends when a read is finished; `doze` leaves finished reads for later.
  io::Wakeup wait(int64_t timeout_ns) { return reader_->wait(timeout_ns); }
  io::Wakeup doze() { return reader_->doze(-1); }
  /// Notes a finished read. An error if its bytes are of no use.
  Status on_finished(const io::Completion& read);
  /// Takes out the next unit if all its bytes are here.
  std::optional<UnitNumber> take_finished();

  /// Whether this pass read the unit. It did not if the unit is pinned or without weights.
  bool was_read(UnitNumber unit) const { return last_reads_[index(unit)] == unit; }
  uint64_t read_bytes() const { return read_bytes_; }
  const char* reader_name() const { return reader_name_; }

  /// After a failure: the units that wait in line are not read any more.
  void cancel_waiting() { line_.clear(); }
  /// No read is in flight, and units are numbered from 0 again.
  void begin_anew();

 private:
  static constexpr UnitNumber never = UINT64_MAX;

  size_t index(UnitNumber unit) const { return unit % units_.size(); }
  bool was_changed() const;

  const std::span<const UnitBytes> units_;
  const ExecutorOptions& options_;
  std::unique_ptr<io::Reader> reader_;
  const char* reader_name_ = "";
  ReadLine line_;
  std::deque<UnitNumber> in_order_;  // started, and not taken out yet
  // By number modulo 2 · units, because so many units can be under way.
  std::vector<bool> is_read_;
  std::vector<UnitNumber> last_reads_;  // by index
  std::atomic<uint64_t> read_bytes_{0};
};

}  // namespace weightpager::pipeline
