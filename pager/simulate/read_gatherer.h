// Reads on their way to the simulated disk: neighbours become one request, and requests go there
// together, by the live pager's rules (window/run.h, io/reader.h).
#pragma once

#include <cstdint>
#include <vector>

#include "pager/io/reader.h"
#include "pager/policy/chunk_order.h"
#include "pager/simulate/disk_model.h"
#include "pager/window/run.h"

namespace weightpager::simulate {

/// Whether the chunk can go into one call with the run before it: its bytes and its slot follow the
/// run's.
inline bool goes_along(const policy::ChunkTable& table, const window::Run& run,
                       policy::ChunkId chunk, uint32_t count_max) {
  return window::comes_next(run, chunk, count_max) &&
         table.slot(chunk) == table.slot(run.first) + run.count;
}

class ReadGatherer {
 public:
  using ChunkId = policy::ChunkId;
  using Run = window::Run;

  /// `table` and `disk` outlive this object. A request takes the pager `request_ns`.
  ReadGatherer(const policy::ChunkTable& table, SimulatedDisk& disk, uint64_t chunk_bytes,
               uint64_t request_ns)
      : table_(table), disk_(disk), chunk_bytes_(chunk_bytes), request_ns_(request_ns) {}

  /// The chunk is being read. `pager_ns`: the pager's clock, which is advanced.
  void add(ChunkId chunk, uint64_t& pager_ns) {
    const uint32_t chunks_max = window::chunks_together(window::read_bytes_max, chunk_bytes_);
    if (!goes_along(table_, gathered_, chunk, chunks_max)) {
      end_request(pager_ns);
      gathered_ = {chunk, 0};
    }
    ++gathered_.count;
  }

  /// Hands everything over to the disk.
  void flush(uint64_t& pager_ns) {
    end_request(pager_ns);
    submit(pager_ns);
  }

  size_t requests_waiting() const { return unsubmitted_.size(); }

  static Run run_of(uint64_t tag) {
    return {static_cast<ChunkId>(tag), static_cast<uint32_t>(tag >> 32)};
  }

 private:
  void end_request(uint64_t& pager_ns) {
    if (gathered_.count == 0) return;
    pager_ns += request_ns_;
    unsubmitted_.push_back(gathered_);
    unsubmitted_bytes_ += gathered_.count * chunk_bytes_;
    gathered_.count = 0;
    if (unsubmitted_bytes_ >= io::submitted_at_once_bytes) submit(pager_ns);
  }

  void submit(uint64_t now_ns) {
    for (const Run& run : unsubmitted_) {
      disk_.start(tag_of(run), run.count * chunk_bytes_, now_ns);
    }
    unsubmitted_.clear();
    unsubmitted_bytes_ = 0;
  }

  static uint64_t tag_of(const Run& run) { return uint64_t{run.count} << 32 | run.first; }

  const policy::ChunkTable& table_;
  SimulatedDisk& disk_;
  const uint64_t chunk_bytes_;
  const uint64_t request_ns_;
  Run gathered_;  // chunks that one request is to read
  std::vector<Run> unsubmitted_;
  uint64_t unsubmitted_bytes_ = 0;
};

}  // namespace weightpager::simulate
