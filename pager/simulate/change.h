// How long passes stay slow after a change: a prompt, or another window.
//
// Problem. After a prompt, or with another window, passes are slow for a while. How long? A pass of
// a mixture uses other experts than the one before, so passes differ by more than a tenth even
// where nothing changes, and one pass is no measure of another.
//
// Idea. Each pass after the change is compared with the same pass, with the same touches, of a run
// that had the later state all along: the later window from the start, or decoding only.
//
// The bounds. Every policy has to read the chunks that are used after the change and were not held
// when it came. Where these reads take longer than the same passes of the unchanged run, the
// difference is lost in any case. And no policy knows which experts a pass will use: experts are
// read when they are missed, and no computing hides these reads. So a run is compared with an
// informed reader, who is told how often each chunk will be used from the change on, reads the
// chunks that are missed and keeps those that are used most. The informed reader misses less than a
// policy that has to find out, and a missed chunk costs the same for both. A second reader, the
// learner, does have to find out: it keeps the chunks that were used most until then, counting the
// prompt and all passes before the change. (Experts that were used before the change may be read
// ahead, on the guess that they come again. Only so does a policy recover sooner than these two
// readers.)
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
  /// The first pass after the change.
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
  /// A run in which nothing changes. Its passes from its change_pass on are the same.
  RunWithChange unchanged;
};

/// A first prompt, a prompt between two answers, half the window, twice the window. For windows of
/// a quarter and a half of the model, `passes_after` passes each. Another seed is another text.
std::vector<Change> usual_changes(const model::Model& model, size_t passes_after, uint64_t seed);

/// The passes since the change, by pass: of one text, or the sums over several texts, because an
/// expert more or less in one text says little.
struct ChangeTimes {
  std::vector<uint64_t> changed_ns;
  std::vector<uint64_t> unchanged_ns;   // the same passes
  std::vector<uint64_t> changed_reads;  // chunks
  std::vector<uint64_t> unchanged_reads;
  /// Chunks that the unchanged run holds when the change comes, and the changed one does not.
  uint64_t missing_chunks = 0;
  /// By pass: chunks used for the first time since the change that were not held when it came.
  std::vector<uint64_t> first_uses;
  /// By pass: chunks that the informed reader misses, and chunks that the learner misses.
  std::vector<uint64_t> informed_misses;
  std::vector<uint64_t> learning_misses;
  std::vector<uint64_t> computing_ns;  // of the same passes, without any waiting

  ChangeTimes& operator+=(const ChangeTimes& other);
  /// Sets what each run's passes took and read since the change.
  void set_passes(std::span<const PassCounts> changed, std::span<const PassCounts> unchanged);
};

struct Recovery {
  /// By pass: its time, divided by the time of the same pass without the change.
  std::vector<double> times_as_long;
  /// Passes until two in a row take at most a tenth longer; all passes, if no two do.
  size_t passes = 0;
  /// How far the changed run fell behind the other one, at most.
  int64_t lost_ns = 0;
};

Recovery recovery(const ChangeTimes& times);

/// The recovery of a reader that misses `misses[pass]` chunks in each pass of `times`
/// (informed_misses or learning_misses), on a disk that takes `chunk_ns` for a chunk.
Recovery recovery_if_missing(const ChangeTimes& times, std::span<const uint64_t> misses,
                             double chunk_ns);

/// How far every policy falls behind at least, on a disk that takes `chunk_ns` for a chunk.
uint64_t least_lost_ns(const ChangeTimes& times, double chunk_ns);

/// The change sets the window and its resizing, whatever `options` says.
Result<ChangeTimes> simulate_change(const Change& change, const SimulatorOptions& options);

}  // namespace weightpager::simulate
