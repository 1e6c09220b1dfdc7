#include "pager/io/read_table.h"

#include <sys/stat.h>

#include <numeric>

#include "pager/base/assert.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::io {
namespace {

uint32_t pieces_per_read(const ReaderOptions& options) {
  WP_ASSERT(options.reads_max > 0 && options.read_bytes_max > 0);
  WP_ASSERT(options.device_read_bytes > 0 && options.device_read_bytes % os_page_bytes == 0);
  return (options.read_bytes_max - 1) / options.device_read_bytes + 1;
}

/// The present size of a regular file; UINT64_MAX for anything else.
uint64_t file_size_bytes(int fd) {
  struct stat status;
  if (kernel::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return UINT64_MAX;
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace

ReadTable::ReadTable(const ReaderOptions& options)
    : options_(options), pieces_max_(pieces_per_read(options)), free_rows_(options.reads_max) {
  rows_.reserve(options.reads_max);
  while (rows_.size() < options.reads_max) rows_.emplace_back(pieces_max_);
  std::iota(free_rows_.begin(), free_rows_.end(), 0);
}

uint32_t ReadTable::take_free_row(const Read& read) {
  WP_ASSERT(!free_rows_.empty());
  WP_ASSERT(read.length_bytes <= options_.read_bytes_max);
  const uint32_t row = free_rows_.back();
  free_rows_.pop_back();
  rows_[row].begin(read, options_.device_read_bytes);
  return row;
}

ReadRequest ReadTable::request(PieceName name) const {
  return rows_[name / pieces_max_].request(name % pieces_max_);
}

ReadTable::After ReadTable::take_answer(PieceName name, int64_t answer) {
  ReadProgress& row = rows_[name / pieces_max_];
  const ReadRequest request = row.request(name % pieces_max_);
  if (options_.answer_filter) answer = options_.answer_filter->filter(request, answer);

  const bool is_short = answer > 0 && answer < request.length_bytes;
  const uint64_t file_bytes = is_short ? file_size_bytes(request.fd) : UINT64_MAX;
  if (!row.take_answer(name % pieces_max_, answer, file_bytes)) return After::ask_again;
  return row.is_finished() ? After::read_finished : After::wait_for_others;
}

Completion ReadTable::finish(PieceName name) {
  const uint32_t row = name / pieces_max_;
  free_rows_.push_back(row);
  return rows_[row].completion();
}

uint32_t ReadTable::reads_in_flight() const {
  return static_cast<uint32_t>(rows_.size() - free_rows_.size());
}

}  // namespace weightpager::io
