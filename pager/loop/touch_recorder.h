// What is written down of the engine's touches: for a trace that the user asked for, or as a sample
// for the judge of policies (shadow/); and the pager's own steps, while somebody traces.
//
// A touch of a chunk that is shown is seen by nobody. So of a chunk that is being recorded a touch
// counts once more when so much else was touched since: the chunk is then to be hidden. When a
// sample begins, chunks that were shown before are to be hidden, too, some at a time.
//
// Used by the pager's thread only; `begin` and `begin_sample` allocate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/telemetry/event_ring.h"
#include "pager/telemetry/touch_record.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

class TouchRecorder {
 public:
  /// `trace`: where all touches go, until the end; nullptr: nowhere. Not owned.
  void begin(telemetry::TouchRecord* trace, uint64_t chunk_bytes, uint32_t window_chunks);
  bool is_recording() const { return record_ != nullptr; }
  void add_file(const std::string& name, window::ChunkId first_chunk, uint32_t chunks);
  /// Returns the chunk that is to be hidden now, or no_chunk. Requires is_recording().
  window::ChunkId add_touch(window::ChunkId chunk, uint32_t offset_bytes, uint64_t now_ns);
  /// The last touch of the chunk was served.
  void mark_served(window::ChunkId chunk, uint64_t now_ns);

  /// False: there is no room for a sample. Requires that no trace is recorded.
  bool begin_sample();
  void end_sample();
  /// What the last sample has; stays until the next one begins.
  std::span<const telemetry::RecordedTouch> sample() const;
  uint32_t touches_recorded() const;
  /// A sample has begun, and some chunks of so many that were shown before have yet to be hidden.
  bool is_hiding(uint32_t chunks) const { return is_sampling() && next_to_hide_ < chunks; }
  /// The next of these. Requires is_hiding().
  window::ChunkId take_to_hide() { return next_to_hide_++; }

  /// Events go there from now on; not owned. nullptr: nowhere.
  void trace_to(telemetry::EventRing* events) { events_ = events; }
  void note(telemetry::EventKind kind, window::ChunkId chunk, uint32_t count = 1) const;
  void note_touch(window::ChunkId chunk, window::ChunkState state, uint32_t thread_id,
                  uint64_t now_ns) const;
  void note_served(window::ChunkId chunk, uint64_t now_ns) const;

 private:
  bool is_sampling() const { return record_ != nullptr && record_ == sample_.get(); }

  telemetry::TouchRecord* record_ = nullptr;  // where touches go now, or nullptr
  telemetry::PrivateTouchRecord sample_;
  std::vector<window::ChunkId> last_touched_;  // a ring
  size_t oldest_ = 0;                          // in the ring
  window::ChunkId next_to_hide_ = 0;
  telemetry::EventRing* events_ = nullptr;
};

}  // namespace weightpager
