// What changes while an engine runs, and how soon it is served as well as can be.
//
// Problem. After a prompt, or with another window, passes are slow for a while. How long? A pass of
// a mixture uses other experts than the one before, so passes differ by more than a tenth though
// nothing changes, and are no measure of each other.
//
// Idea. Each pass after the change is laid beside the same pass, with the same touches, of a run
// that had the later state all along: the later window from the start, or decoding only.
//
// The bounds. Whatever is used since the change and was not held when it came has to be read by any
// policy. That takes the disk as long as it takes; what the passes until then take longer for it is
// lost in any case. And nobody knows which experts a pass will use: they are read when they are
// missed, beside no computing. So a run is laid beside that of somebody informed, who is told how
// often each chunk will be used from the change on, reads what is missed and keeps what is used
// most. He misses less than who has to find that out, and a chunk that he misses costs what it
// costs the other run. Beside him stands who does have to: he keeps what was used most until then,
// the prompt and all passes before the change counted. (Experts that were used before the change
// may be read ahead, on the guess that they come again: only so does a policy recover sooner than
// these two.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/model/model.h"
#include "pager/simulate/simulator.h"
#include "pager/simulate/trace.h"

namespace weightpager::simulate {

struct RunWithChange {
  Trace trace;
  /// The first one after the change.
  size_t change_pass = 0;
  uint32_t window_chunks = 0;
  /// From change_pass on.
  uint32_t window_chunks_after = 0;
  /// By chunk: how often it is used in many passes like those after the change.
  std::vector<uint64_t> uses;
};

struct Change {
  std::string name;
  RunWithChange changed;
  /// The same from its change_pass on, where nothing changes.
  RunWithChange unchanged;
};

/// A first prompt, a prompt between two answers, half the window, twice the window. For windows of
/// a quarter and a half of the model, `passes_after` passes each. Another seed is another text.
std::vector<Change> usual_changes(const model::Model& model, size_t passes_after, uint64_t seed);

/// The passes since the change: of one text, or of several together, as one text's expert more or
/// less would say little.
struct ChangeTimes {
  std::vector<uint64_t> changed_ns;
  std::vector<uint64_t> unchanged_ns;   // the same passes
  std::vector<uint64_t> changed_reads;  // chunks
  std::vector<uint64_t> unchanged_reads;
  /// Chunks that the unchanged run holds when the change comes, and the changed one does not.
  uint64_t missing_chunks = 0;
  /// By pass: chunks used for the first time since the change that were not held when it came.
  std::vector<uint64_t> first_uses;
  /// By pass: chunks that somebody informed misses, and somebody who learns.
  std::vector<uint64_t> informed_misses;
  std::vector<uint64_t> learning_misses;
  std::vector<uint64_t> computing_ns;  // of the same passes, without any waiting

  ChangeTimes& operator+=(const ChangeTimes& other);
  /// What each run's passes took since the change.
  void set_passes(std::span<const PassCounts> changed, std::span<const PassCounts> unchanged);
};

struct Recovery {
  /// How many times as long as it should each pass took.
  std::vector<double> times_as_long;
  /// Passes until two in a row take at most a tenth longer; all, if none do.
  size_t passes = 0;
  /// How far it fell behind, at most.
  int64_t lost_ns = 0;
};

Recovery recovery(const ChangeTimes& times);

/// Of somebody who misses so many chunks in each pass (those of ChangeTimes), on a disk that takes
/// so long for one.
Recovery recovery_if_missing(const ChangeTimes& times, std::span<const uint64_t> misses,
                             double chunk_ns);

/// How far any policy falls behind, on a disk that takes so long for a chunk.
uint64_t least_lost_ns(const ChangeTimes& times, double chunk_ns);

/// Window and resizing are set by the change.
Result<ChangeTimes> simulate_change(const Change& change, const SimulatorOptions& options);

}  // namespace weightpager::simulate
