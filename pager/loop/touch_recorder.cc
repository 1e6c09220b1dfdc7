#include "pager/loop/touch_recorder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "pager/base/units.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager {

using telemetry::EventKind;
using window::ChunkId;
using window::ChunkState;

namespace {

// A chunk's next touch counts when so much else was touched since.
constexpr uint64_t recorded_bytes = 32 * MiB;

}  // namespace

void TouchRecorder::begin(telemetry::TouchRecord* trace, uint64_t chunk_bytes,
                          uint32_t window_chunks) {
  record_ = trace;
  if (trace != nullptr) trace->set_chunk_bytes(chunk_bytes);
  last_touched_.assign(std::min<uint64_t>(recorded_bytes / chunk_bytes, window_chunks / 4),
                       window::no_chunk);
}

void TouchRecorder::add_file(const std::string& name, ChunkId first_chunk, uint32_t chunks) {
  if (is_recording() && !is_sampling()) record_->add_file(name, first_chunk, chunks);
}

ChunkId TouchRecorder::add_touch(ChunkId chunk, uint32_t offset_bytes, uint64_t now_ns) {
  record_->add_touch(chunk, offset_bytes, now_ns);
  const ChunkId oldest = std::exchange(last_touched_[oldest_], chunk);
  oldest_ = (oldest_ + 1) % last_touched_.size();
  return oldest == chunk ? window::no_chunk : oldest;
}

void TouchRecorder::mark_served(ChunkId chunk, uint64_t now_ns) {
  if (record_ != nullptr) record_->mark_served(chunk, now_ns);
}

bool TouchRecorder::begin_sample() {
  if (sample_ == nullptr) {
    auto created = telemetry::TouchRecord::create_private();
    if (!created) return false;
    sample_ = std::move(*created);
  }
  sample_->forget_touches();
  std::fill(last_touched_.begin(), last_touched_.end(), window::no_chunk);
  record_ = sample_.get();
  next_to_hide_ = 0;
  return true;
}

void TouchRecorder::end_sample() {
  if (is_sampling()) record_ = nullptr;
}

std::span<const telemetry::RecordedTouch> TouchRecorder::sample() const {
  return sample_->touches();
}

uint32_t TouchRecorder::touches_recorded() const {
  return record_ == nullptr ? 0 : static_cast<uint32_t>(record_->touches().size());
}

void TouchRecorder::note(EventKind kind, ChunkId chunk, uint32_t count) const {
  if (events_ == nullptr) return;
  events_->add(
      {.time_ns = telemetry::monotonic_ns(), .chunk = chunk, .count = count, .kind = kind});
}

void TouchRecorder::note_touch(ChunkId chunk, ChunkState state, uint32_t thread_id,
                               uint64_t now_ns) const {
  if (events_ == nullptr) return;
  events_->add({.time_ns = now_ns,
                .chunk = chunk,
                .thread = thread_id,
                .kind = EventKind::touch,
                .state = static_cast<uint8_t>(state)});
}

void TouchRecorder::note_served(ChunkId chunk, uint64_t now_ns) const {
  if (events_ == nullptr) return;
  events_->add({.time_ns = now_ns, .chunk = chunk, .kind = EventKind::served});
}

}  // namespace weightpager
