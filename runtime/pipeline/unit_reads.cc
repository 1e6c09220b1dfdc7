#include "runtime/pipeline/unit_reads.h"

#include <algorithm>
#include <utility>

#include "pager/io/open_reader.h"
#include "runtime/pipeline/unit_read.h"

namespace weightpager::pipeline {

UnitReads::UnitReads(std::span<const UnitBytes> units, const ExecutorOptions& options)
    : units_(units),
      options_(options),
      is_read_(2 * units.size()),
      last_reads_(units.size(), never) {}

Status UnitReads::open(int watched_fd) {
  io::ReaderOptions options = reader_options(units_, options_.device_read_bytes);
  options.is_of_one_thread = options_.driver == Driver::own_thread;
  options.watched_fd = watched_fd;
  auto reader =
      options_.open_reader ? options_.open_reader(options) : io::open_best_reader(options);
  if (!reader) return forward_error(std::move(reader));
  reader_ = std::move(*reader);
  reader_name_ = reader_->name();
  return {};
}

std::optional<UnitNumber> UnitReads::first() const {
  if (in_order_.empty()) return std::nullopt;
  return in_order_.front();
}

std::optional<ReadLine::UnitRead> UnitReads::take(uint64_t under_way_max_bytes) {
  if (!line_.may_take(under_way_max_bytes)) return std::nullopt;
  const ReadLine::UnitRead read = line_.take();
  in_order_.push_back(read.unit);
  is_read_[read.unit % is_read_.size()] = false;
  last_reads_[index(read.unit)] = read.unit;
  return read;
}

void UnitReads::start(UnitNumber unit, std::byte* buffer) {
  reader_->start(read_of(unit, units_[index(unit)], options_.fd, buffer));
}

Status UnitReads::on_finished(const io::Completion& read) {
  const UnitNumber unit = read.tag;
  const UnitBytes& wanted = units_[index(unit)];
  read_bytes_ += read.length_bytes;
  line_.on_finished(wanted.length_bytes);
  is_read_[unit % is_read_.size()] = true;
  if (is_short(wanted, read)) {
    return tl::make_unexpected(short_read(options_.file_name, wanted, read));
  }
  if (was_changed()) return tl::make_unexpected(changed_file(options_.file_name));
  return {};
}

std::optional<UnitNumber> UnitReads::take_finished() {
  if (in_order_.empty()) return std::nullopt;
  const UnitNumber unit = in_order_.front();
  if (!is_read_[unit % is_read_.size()]) return std::nullopt;
  in_order_.pop_front();
  return unit;
}

// After a change, some layers of a pass would have weights from before it and some from after it.
// Changes of the file's names and rights do no harm.
bool UnitReads::was_changed() const {
  if (!options_.file) return false;
  const auto now = io::identity_of(options_.fd);
  return now && options_.file->may_have_other_bytes(*now);
}

void UnitReads::begin_anew() {
  in_order_.clear();
  std::fill(last_reads_.begin(), last_reads_.end(), never);
}

}  // namespace weightpager::pipeline
