// Measures a disk for the simulator's disk model (simulate/disk_model.h), by reads of one length, a
// given number of them at once.
//
// The reads are made as the pager makes them: direct, by its reader, and into huge pages, of which
// there are as many as a window has. (The host of a virtual disk copies faster into a few buffers
// that are used again and again than into a window.)
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"
#include "pager/simulate/disk_model.h"
#include "tools/probes/huge_memory.h"

namespace weightpager::tools {

/// Reads that are submitted together: the times from the submission to the first answer and to the
/// last one.
struct BurstTimes {
  uint64_t first_ns = 0;
  uint64_t last_ns = 0;
};

struct ReadTimes {
  double bytes_per_s = 0;
  /// This thread's processor time for each read.
  uint64_t request_ns = 0;
  std::vector<uint64_t> read_ns;  // of each read, shortest first
};

/// A disk for the simulator, and the processor time that a read costs the thread that makes it.
struct FittedDisk {
  simulate::DiskModel disk;
  uint64_t request_ns = 0;
};

/// The speed is that of `many`. The latency is the time that a single read takes beyond its bytes
/// at that speed and beyond its thread's work. The jitter is the average time by which single reads
/// take longer than the quickest of them.
FittedDisk fit_disk(const std::string& name, const ReadTimes& single, uint64_t single_bytes,
                    const ReadTimes& many, uint32_t queue_depth);

/// For one thread.
class DiskProbe {
 public:
  static constexpr uint32_t depth_max = 64;
  static constexpr uint32_t read_bytes_max = 2u << 20;

  /// Fails if the file is too small, or has no direct reads.
  static Result<DiskProbe> open(const std::string& path);

  /// Keeps `depth` reads of `length_bytes` going for `time`, one behind the other in the file.
  Result<ReadTimes> read(uint32_t depth, uint32_t length_bytes, std::chrono::milliseconds time);

  /// Submits `depth` reads at once, and no more until all are done. Returns the median of several
  /// such bursts.
  Result<BurstTimes> read_burst(uint32_t depth, uint32_t length_bytes);

  /// Whether the disk reports reads as done only when all that it had are done, all at once.
  Result<bool> answers_together();

  /// Measures with the pager's reads for chunks of this size: single chunks for touches, runs of
  /// chunks for reading ahead. Takes half a second.
  Result<FittedDisk> fit(uint64_t chunk_bytes);

  const std::string& path() const { return path_; }

 private:
  DiskProbe(std::string path, io::ModelFile file, std::unique_ptr<io::Reader> reader,
            HugeMemory pool)
      : path_(std::move(path)),
        file_(std::move(file)),
        reader_(std::move(reader)),
        pool_(std::move(pool)) {}

  void start(uint32_t tag, uint32_t length_bytes);

  std::string path_;
  io::ModelFile file_;
  std::unique_ptr<io::Reader> reader_;
  HugeMemory pool_;
  uint64_t offset_bytes_ = 0;
  uint64_t pool_at_bytes_ = 0;
};

}  // namespace weightpager::tools
