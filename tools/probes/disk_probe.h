// A disk, asked for what it is on paper (simulate/disk_model.h): reads of one length, so many at
// once.
//
// They are made as the pager makes them: direct, by its reader, and into huge pages, of which there
// are as many as a window has. (Into few buffers, used over and over, the host of a virtual disk
// copies faster than it ever will into a window.)
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

/// Reads that are handed over together: from then to the first and to the last answer.
struct BurstTimes {
  uint64_t first_ns = 0;
  uint64_t last_ns = 0;
};

struct ReadTimes {
  double bytes_per_s = 0;
  /// Of this thread's processor time, for each read.
  uint64_t request_ns = 0;
  std::vector<uint64_t> read_ns;  // of each, shortest first
};

/// A disk on paper, and what a read costs the thread that makes it.
struct FittedDisk {
  simulate::DiskModel disk;
  uint64_t request_ns = 0;
};

/// The speed is that of `many`; the latency what a single read takes beyond its bytes at that speed
/// and its thread's work; jitter what single reads take longer than the quickest of them, on
/// average.
FittedDisk fit_disk(const std::string& name, const ReadTimes& single, uint64_t single_bytes,
                    const ReadTimes& many, uint32_t queue_depth);

/// Used by one thread.
class DiskProbe {
 public:
  static constexpr uint32_t depth_max = 64;
  static constexpr uint32_t read_bytes_max = 2u << 20;

  /// Fails if the file is too small, or has no direct reads.
  static Result<DiskProbe> open(const std::string& path);

  /// `depth` reads of `length_bytes` at once, one behind the other in the file, for so long.
  Result<ReadTimes> read(uint32_t depth, uint32_t length_bytes, std::chrono::milliseconds time);

  /// `depth` reads at once, and nothing more until all are done: the median of some.
  Result<BurstTimes> read_burst(uint32_t depth, uint32_t length_bytes);

  /// Whether the disk says that reads are done when it has worked off all that it had, all at once.
  Result<bool> answers_together();

  /// As the pager reads chunks of this size: single ones when they are touched, runs of them ahead.
  /// Takes half a second.
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
