// What an engine touches: recorded from a run (docs/reference/traces.md says how), or made up
// (make_trace.h).
//
// A trace holds what a live policy is told at the start (the order and the experts that the model's
// files give away), and then each touch of the engine with the time that the engine computes before
// the next touch. It does not hold waiting, which depends on the pager.
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

struct Trace {
  /// "dense cyclic", the model's file name, …
  std::string name;
  uint64_t chunk_bytes = chunk_bytes_max;
  uint32_t chunks = 0;
  policy::ChunkOrder order;
  std::vector<Touch> touches;
  /// Where in `touches` passes begin, ascending, the first at 0.
  std::vector<uint64_t> pass_begins;

  uint64_t model_bytes() const { return chunks * chunk_bytes; }
  uint64_t compute_ns() const;
  /// The touches of pass `pass`: [pass_begins[pass], pass_end(pass)).
  uint64_t pass_end(size_t pass) const {
    return pass + 1 < pass_begins.size() ? pass_begins[pass + 1] : touches.size();
  }
  std::vector<ChunkId> touched_chunks() const;
};

/// The touches that were recorded while an engine ran. Computing is the time from when a touch was
/// served to the next touch, and 0 where threads' touches overlap.
std::vector<Touch> touches_of(std::span<const telemetry::RecordedTouch> recorded);

}  // namespace weightpager::simulate
