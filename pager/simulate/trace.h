// What an engine touches: recorded from a run (docs/reference/traces.md says how), or made up
// (make_trace.h).
//
// A trace holds what a live policy is told at the start (the order and the experts that the model's
// files give away), and then each touch of the engine with the time that the engine computes before
// the next touch. It does not hold waiting, which depends on the pager.
//
// An engine may have several threads. Then the touches are divided into parts: what one thread does
// without a word to the others. A part belongs to a thread, or to whichever thread is free first;
// and where a matrix begins all threads meet (engine_threads.h plays them). The order of parts in
// the trace is not the order in time: that depends on how long each thread waits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/units.h"
#include "pager/policy/chunk_order.h"
#include "pager/telemetry/touch_record.h"

namespace weightpager::simulate {

using policy::ChunkId;

struct Touch {
  ChunkId chunk = window::no_chunk;
  /// Where in the chunk; policy::anywhere if that is not known.
  uint32_t offset_bytes = policy::anywhere;
  /// Computing from here to the next touch, without waiting.
  uint64_t compute_ns = 0;
};

/// For a part that whichever thread is free takes.
inline constexpr uint32_t any_thread = UINT32_MAX;

/// Touches that one thread makes one after the other: from `begin` in Trace::touches to where the
/// next part begins.
struct ThreadPart {
  uint64_t begin = 0;
  uint32_t thread = any_thread;
  /// All threads have ended what lies before, when any of them begins this part or a later one.
  bool is_met = false;
};

struct Trace {
  /// "dense cyclic", the model's file name, …
  std::string name;
  uint64_t chunk_bytes = chunk_bytes_max;
  uint32_t chunks = 0;
  policy::ChunkOrder order;
  std::vector<Touch> touches;
  /// Where in `touches` passes begin, ascending, the first at 0.
  std::vector<uint64_t> pass_begins;
  /// Threads of the engine.
  uint32_t threads = 1;
  /// By `begin`, the first at 0. Empty if there is one thread. Threads meet where a pass begins.
  std::vector<ThreadPart> parts;

  uint64_t model_bytes() const { return chunks * chunk_bytes; }
  /// Of all threads together.
  uint64_t compute_ns() const;
  /// The touches of pass `pass`: [pass_begins[pass], pass_end(pass)).
  uint64_t pass_end(size_t pass) const {
    return pass + 1 < pass_begins.size() ? pass_begins[pass + 1] : touches.size();
  }
  /// In the order of `touches`.
  std::vector<ChunkId> touched_chunks() const;
};

/// The touches that were recorded while an engine ran. Computing is the time from when a touch was
/// served to the next touch, and 0 where threads' touches overlap.
std::vector<Touch> touches_of(std::span<const telemetry::RecordedTouch> recorded);

}  // namespace weightpager::simulate
