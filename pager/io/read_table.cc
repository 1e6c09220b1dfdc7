#include "pager/io/read_table.h"

#include <sys/stat.h>

#include <numeric>

#include "pager/base/assert.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::io {

// For readers of tests and benchmarks, which are only read with.
void Reader::start_write(const Write&) { WP_ASSERT(!"this reader cannot write"); }

namespace {

uint32_t pieces_per_row(const ReaderOptions& options) {
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
    : options_(options), pieces_max_(pieces_per_row(options)), free_rows_(options.reads_max) {
  rows_.reserve(options.reads_max);
  while (rows_.size() < options.reads_max) rows_.emplace_back(pieces_max_);
  std::iota(free_rows_.begin(), free_rows_.end(), 0);
}

uint32_t ReadTable::take_free_row() {
  WP_ASSERT(!free_rows_.empty());
  const uint32_t row = free_rows_.back();
  free_rows_.pop_back();
  return row;
}

KernelRequest ReadTable::request(PieceName name) const {
  return rows_[name / pieces_max_].request(name % pieces_max_);
}

ReadTable::After ReadTable::take_answer(PieceName name, int64_t answer) {
  ReadProgress& row = rows_[name / pieces_max_];
  const KernelRequest request = row.request(name % pieces_max_);
  if (options_.answer_filter) answer = options_.answer_filter->filter(request, answer);

  const bool is_short = answer > 0 && answer < request.length_bytes;
  const uint64_t file_bytes =
      is_short && !request.is_write ? file_size_bytes(request.fd) : UINT64_MAX;
  if (!row.take_answer(name % pieces_max_, answer, file_bytes)) return After::ask_again;
  return row.is_finished() ? After::row_finished : After::wait_for_others;
}

Completion ReadTable::finish(PieceName name) {
  const uint32_t row = name / pieces_max_;
  free_rows_.push_back(row);
  return rows_[row].completion();
}

void ReadTable::hand_over(Reader& reader) {
  std::vector<bool> is_free(rows_.size());
  for (const uint32_t row : free_rows_) is_free[row] = true;
  for (uint32_t row = 0; row < rows_.size(); ++row) {
    if (is_free[row]) continue;
    rows_[row].start_anew(reader);
    free_rows_.push_back(row);
  }
}

uint32_t ReadTable::in_flight() const {
  return static_cast<uint32_t>(rows_.size() - free_rows_.size());
}

}  // namespace weightpager::io
