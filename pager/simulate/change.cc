#include "pager/simulate/change.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "pager/base/assert.h"
#include "pager/simulate/make_trace.h"

namespace weightpager::simulate {
namespace {

// Enough passes to know which experts are used most.
constexpr uint32_t passes_before = 30;
constexpr uint32_t prompt_passes = 2;
// Enough passes to know how often each expert is used.
constexpr uint32_t passes_counted = 300;
constexpr double recovered_at_most = 1.1;

/// The same model, and no passes.
Trace without_passes(const Trace& trace) {
  return {.name = trace.name,
          .chunk_bytes = trace.chunk_bytes,
          .chunks = trace.chunks,
          .order = trace.order,
          .touches = {},
          .pass_begins = {}};
}

void append_passes(Trace& to, const Trace& from, size_t begin, size_t end) {
  for (size_t pass = begin; pass < end; ++pass) {
    to.pass_begins.push_back(to.touches.size());
    for (uint64_t at = from.pass_begins[pass]; at < from.pass_end(pass); ++at) {
      to.touches.push_back(from.touches[at]);
    }
  }
}

std::vector<uint64_t> count_uses(const Trace& trace, uint64_t touches) {
  std::vector<uint64_t> uses(trace.chunks);
  for (uint64_t at = 0; at < touches; ++at) ++uses[trace.touches[at].chunk];
  return uses;
}

/// By chunk.
using Chunks = std::vector<bool>;

Chunks chunks_held(const policy::ChunkTable& table) {
  Chunks held;
  for (policy::ChunkId chunk = 0; chunk < table.chunks(); ++chunk) {
    held.push_back(table.is_resident(chunk));
  }
  return held;
}

struct Outcome {
  std::vector<PassCounts> passes;  // since the change
  Chunks held;                     // when it came
};

Result<Outcome> play(const RunWithChange& run, SimulatorOptions options) {
  Outcome outcome;
  options.window_chunks = run.window_chunks;
  if (run.window_chunks_after != run.window_chunks) {
    options.resize_pass = run.change_pass;
    options.resize_chunks = run.window_chunks_after;
  }
  options.before_pass = [&](size_t pass, const policy::ChunkTable& table) {
    if (pass == run.change_pass) outcome.held = chunks_held(table);
  };
  auto simulated = simulate(run.trace, options);
  if (!simulated) return forward_error(std::move(simulated));
  const auto since = std::span(simulated->passes).subspan(run.change_pass);
  outcome.passes.assign(since.begin(), since.end());
  return outcome;
}

/// By pass since the change: chunks that were not there and that no earlier one of these passes
/// used.
std::vector<uint64_t> first_uses(const RunWithChange& run, Chunks is_there) {
  std::vector<uint64_t> by_pass;
  for (size_t pass = run.change_pass; pass < run.trace.pass_begins.size(); ++pass) {
    by_pass.push_back(0);
    for (uint64_t at = run.trace.pass_begins[pass]; at < run.trace.pass_end(pass); ++at) {
      const policy::ChunkId chunk = run.trace.touches[at].chunk;
      by_pass.back() += !is_there[chunk];
      is_there[chunk] = true;
    }
  }
  return by_pass;
}

/// Known uses stay as they are. Seen uses grow after each pass, not within it: a chunk that the
/// engine has left in a pass is worth no more than a chunk that it will come to.
enum class Uses { known, seen };

/// By pass since the change: the chunks missed by a reader that keeps the chunks with most uses.
std::vector<uint64_t> misses(const RunWithChange& run, const Chunks& held,
                             std::vector<uint64_t> uses, Uses are) {
  std::set<std::pair<uint64_t, policy::ChunkId>> kept;
  const auto keep = [&](policy::ChunkId chunk) {
    kept.emplace(uses[chunk], chunk);
    if (kept.size() > run.window_chunks_after) kept.erase(kept.begin());
  };
  for (policy::ChunkId chunk = 0; chunk < run.trace.chunks; ++chunk) {
    if (held[chunk]) keep(chunk);
  }
  std::vector<uint64_t> by_pass;
  for (size_t pass = run.change_pass; pass < run.trace.pass_begins.size(); ++pass) {
    by_pass.push_back(0);
    for (uint64_t at = run.trace.pass_begins[pass]; at < run.trace.pass_end(pass); ++at) {
      const policy::ChunkId chunk = run.trace.touches[at].chunk;
      by_pass.back() += !kept.contains({uses[chunk], chunk});
      keep(chunk);
    }
    if (are == Uses::known) continue;
    for (uint64_t at = run.trace.pass_begins[pass]; at < run.trace.pass_end(pass); ++at) {
      const policy::ChunkId chunk = run.trace.touches[at].chunk;
      const bool is_kept = kept.erase({uses[chunk]++, chunk}) > 0;
      if (is_kept) keep(chunk);
    }
  }
  return by_pass;
}

}  // namespace

std::vector<Change> usual_changes(const model::Model& model, size_t passes_after, uint64_t seed) {
  Workload work;
  work.seed = seed;
  work.passes = passes_counted;
  const Trace long_run = make_trace(model, work, "decoding");
  const std::vector<uint64_t> uses = count_uses(long_run, long_run.touches.size());
  Trace decoding = without_passes(long_run);
  append_passes(decoding, long_run, 0, passes_before + passes_after);
  work.passes = work.prompt_passes = prompt_passes;
  const Trace prompt = make_trace(model, work, "prompt");

  const size_t end = decoding.pass_begins.size();
  const uint32_t half = std::max(decoding.chunks / 2, window_chunks_min);
  const uint32_t quarter = std::max(decoding.chunks / 4, window_chunks_min);
  const auto decode_with = [&](uint32_t before, uint32_t after) {
    return RunWithChange{decoding, passes_before, before, after, uses};
  };
  RunWithChange first_prompt{without_passes(decoding), prompt_passes, half, half, uses};
  append_passes(first_prompt.trace, prompt, 0, prompt_passes);
  append_passes(first_prompt.trace, decoding, passes_before, end);
  RunWithChange next_prompt{without_passes(decoding), passes_before, half, half, uses};
  append_passes(next_prompt.trace, decoding, 0, passes_before - prompt_passes);
  append_passes(next_prompt.trace, prompt, 0, prompt_passes);
  append_passes(next_prompt.trace, decoding, passes_before, end);
  return {{"first prompt", std::move(first_prompt), decode_with(half, half)},
          {"next prompt", std::move(next_prompt), decode_with(half, half)},
          {"half the window", decode_with(half, quarter), decode_with(quarter, quarter)},
          {"twice the window", decode_with(quarter, half), decode_with(half, half)}};
}

ChangeTimes& ChangeTimes::operator+=(const ChangeTimes& other) {
  const auto add = [](std::vector<uint64_t>& to, const std::vector<uint64_t>& times) {
    to.resize(std::max(to.size(), times.size()));
    for (size_t pass = 0; pass < times.size(); ++pass) to[pass] += times[pass];
  };
  add(changed_ns, other.changed_ns);
  add(unchanged_ns, other.unchanged_ns);
  add(changed_reads, other.changed_reads);
  add(unchanged_reads, other.unchanged_reads);
  add(first_uses, other.first_uses);
  add(informed_misses, other.informed_misses);
  add(learning_misses, other.learning_misses);
  add(computing_ns, other.computing_ns);
  missing_chunks += other.missing_chunks;
  return *this;
}

void ChangeTimes::set_passes(std::span<const PassCounts> changed,
                             std::span<const PassCounts> unchanged) {
  const auto each = [](std::span<const PassCounts> passes, uint64_t PassCounts::*count) {
    std::vector<uint64_t> counts;
    for (const PassCounts& pass : passes) counts.push_back(pass.*count);
    return counts;
  };
  changed_ns = each(changed, &PassCounts::time_ns);
  unchanged_ns = each(unchanged, &PassCounts::time_ns);
  changed_reads = each(changed, &PassCounts::reads);
  unchanged_reads = each(unchanged, &PassCounts::reads);
  computing_ns = each(changed, &PassCounts::compute_ns);
}

Recovery recovery(const ChangeTimes& times) {
  WP_ASSERT(times.changed_ns.size() == times.unchanged_ns.size());
  Recovery it;
  int64_t behind_ns = 0;
  for (size_t pass = 0; pass < times.changed_ns.size(); ++pass) {
    const auto changed_ns = static_cast<double>(times.changed_ns[pass]);
    const auto unchanged_ns = static_cast<double>(times.unchanged_ns[pass]);
    it.times_as_long.push_back(changed_ns / unchanged_ns);
    behind_ns += static_cast<int64_t>(times.changed_ns[pass] - times.unchanged_ns[pass]);
    it.lost_ns = std::max(it.lost_ns, behind_ns);
  }
  const auto& ratios = it.times_as_long;
  const auto first = std::adjacent_find(ratios.begin(), ratios.end(), [](double one, double next) {
    return std::max(one, next) <= recovered_at_most;
  });
  it.passes = static_cast<size_t>(first - ratios.begin());
  return it;
}

Recovery recovery_if_missing(const ChangeTimes& times, std::span<const uint64_t> misses,
                             double chunk_ns) {
  ChangeTimes its = times;
  for (size_t pass = 0; pass < times.unchanged_ns.size(); ++pass) {
    const uint64_t as_many = std::min(misses[pass], times.unchanged_reads[pass]);
    const auto more = static_cast<double>(misses[pass] - as_many);
    its.changed_ns[pass] = times.unchanged_ns[pass] + static_cast<uint64_t>(more * chunk_ns);
  }
  return recovery(its);
}

uint64_t least_lost_ns(const ChangeTimes& times, double chunk_ns) {
  double behind_ns = 0;
  double most_ns = 0;
  for (size_t pass = 0; pass < times.unchanged_ns.size(); ++pass) {
    behind_ns += static_cast<double>(times.first_uses[pass]) * chunk_ns;
    behind_ns -= static_cast<double>(times.unchanged_ns[pass]);
    most_ns = std::max(most_ns, behind_ns);
  }
  return static_cast<uint64_t>(most_ns);
}

Result<ChangeTimes> simulate_change(const Change& change, const SimulatorOptions& options) {
  auto changed = play(change.changed, options);
  if (!changed) return forward_error(std::move(changed));
  auto unchanged = play(change.unchanged, options);
  if (!unchanged) return forward_error(std::move(unchanged));
  ChangeTimes it;
  for (size_t chunk = 0; chunk < changed->held.size(); ++chunk) {
    it.missing_chunks += unchanged->held[chunk] && !changed->held[chunk];
  }
  const RunWithChange& run = change.changed;
  it.informed_misses = misses(run, changed->held, run.uses, Uses::known);
  const uint64_t touches_before = run.trace.pass_begins[run.change_pass];
  const auto uses_before = count_uses(run.trace, touches_before);
  it.learning_misses = misses(run, changed->held, uses_before, Uses::seen);
  it.first_uses = first_uses(change.changed, std::move(changed->held));
  it.set_passes(changed->passes, unchanged->passes);
  return it;
}

}  // namespace weightpager::simulate
