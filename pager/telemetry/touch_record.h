// Which chunks an engine touched, and when: what `weightpager run --record` makes a trace of.
//
// Like telemetry a file of the run directory (<pid>.touches) that the pager alone writes, mapped,
// so that it outlives an engine that is killed. Its room is fixed: what comes when it is full is
// only counted. Cost: 24 bytes and no system call a touch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pager/base/result.h"

namespace weightpager::telemetry {

struct RecordedTouch {
  uint64_t touched_ns = 0;
  uint64_t served_ns = 0;  // 0: the engine ended before
  uint32_t chunk = 0;
  uint32_t offset_bytes = 0;  // in the chunk
};

/// A file whose chunks are numbered from `first_chunk` on.
struct RecordedFile {
  uint32_t first_chunk = 0;
  uint32_t chunks = 0;
  char path[1016] = {};
};

class TouchRecord;
struct UnmapTouchRecord {
  void operator()(TouchRecord* record) const;
};
/// In this process's memory only.
using PrivateTouchRecord = std::unique_ptr<TouchRecord, UnmapTouchRecord>;

class TouchRecord {
 public:
  static constexpr uint32_t touches_max = 1u << 20;
  static constexpr uint32_t files_max = 64;

  /// Creates and maps `directory`/<pid>.touches.
  static Result<TouchRecord*> create(const std::string& directory);
  /// Takes address space at once, and memory as touches are added.
  static Result<PrivateTouchRecord> create_private();
  /// Maps an existing one, for as long as the process lives.
  static Result<const TouchRecord*> open(const std::string& path);

  // The pager's thread.
  void forget_touches();
  void set_chunk_bytes(uint64_t chunk_bytes) { chunk_bytes_ = chunk_bytes; }
  void add_file(const std::string& path, uint32_t first_chunk, uint32_t chunks);
  void add_touch(uint32_t chunk, uint32_t offset_bytes, uint64_t now_ns);
  /// Of the chunk's last touch, if it is one of the last few.
  void mark_served(uint32_t chunk, uint64_t now_ns);

  // Whoever reads.
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  std::span<const RecordedTouch> touches() const;
  std::span<const RecordedFile> files() const;
  /// Touches, or files, for which there was no room.
  uint64_t lost() const { return lost_; }

 private:
  TouchRecord() = default;

  uint32_t magic_ = 0;
  uint32_t version_ = 0;
  std::atomic<uint64_t> chunk_bytes_;
  std::atomic<uint64_t> lost_;
  std::atomic<uint32_t> touch_count_;
  std::atomic<uint32_t> file_count_;
  RecordedFile files_[files_max];
  RecordedTouch touches_[touches_max];
};

}  // namespace weightpager::telemetry
