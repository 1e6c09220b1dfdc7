// The engine's threads: who touches what next, and when.
//
// Problem. Each thread works through parts of a matrix and waits for its own chunks; threads meet
// where a matrix ends; some engines deal the parts out beforehand, and others let each thread take
// the next part when it has done one. So the order of touches depends on who waits for how long.
//
// Idea. Each thread has a clock. The caller asks for the thread whose clock is behind all others,
// lets it touch or go on, and says when a thread that waited may go on. Computing takes a
// processor; if all of them are taken, a thread begins when the first one is free.
//
// Knows no chunk's state, no pager. A trace of one thread is one part a pass. Cost: O(threads) a
// touch.
//
// The last chunk that a thread was given stays until the next one is delivered, by every policy's
// rules; so a lone thread has its chunk while it computes. Of many threads one may lose its chunk
// to what the others want. It then has to wait once more, however much of the chunk was left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pager/simulate/trace.h"

namespace weightpager::simulate {

inline constexpr uint64_t never_ns = UINT64_MAX;

class EngineThreads {
 public:
  /// What a thread comes to when its clock says so.
  enum class Step : uint8_t {
    touch,    // a chunk
    go_on,    // it has waited, and now computes from the chunk
    leave,    // it has computed from the chunk, which must still be there: otherwise it waits again
    nothing,  // it has ended its part, and took the next one or waits for the others
  };

  /// `trace` outlives this. `processors` > 0: threads compute on so many.
  EngineThreads(const Trace& trace, uint32_t processors);

  /// All threads begin the pass at this time.
  void begin_pass(size_t pass, uint64_t now_ns);
  bool is_pass_over() const { return is_over_; }
  /// When the pass ended.
  uint64_t end_ns() const { return met_ns_; }

  /// When the next thread takes a step; never_ns if all wait for chunks.
  uint64_t next_ns() const { return clocks_[next_]; }
  uint32_t next_thread() const { return next_; }
  /// What the next thread comes to. Takes it to its next part if it has ended one.
  Step step();

  /// The touch that the thread came to last.
  const Touch& touch(uint32_t thread) const { return trace_.touches[threads_[thread].at]; }
  /// Whether it has computed from that chunk.
  bool has_computed(uint32_t thread) const { return threads_[thread].has_computed; }
  /// The next thread waits for its chunk.
  void wait();
  /// The thread that waited goes on at this time.
  void resume(uint32_t thread, uint64_t go_on_ns);
  /// The next thread computes from its chunk. Returns when computing begins.
  uint64_t compute();
  /// The next thread goes on to its next touch.
  void leave();

 private:
  struct Thread {
    uint64_t at = 0;   // in touches
    uint64_t end = 0;  // of its part
    size_t next_own = 0;
    bool has_waited = false;
    bool has_computed = false;
  };

  void begin_matrix(size_t part);
  bool take_part(Thread& thread, uint32_t number);
  void set_part(Thread& thread, size_t part);
  void meet();
  void find_next();

  const Trace& trace_;
  std::vector<Thread> threads_;
  std::vector<uint64_t> clocks_;         // by thread; never_ns: it waits
  std::vector<uint64_t> processors_ns_;  // when each is free; empty: there are enough
  uint32_t next_ = 0;
  uint64_t pass_end_ = 0;  // in touches
  size_t matrix_end_ = 0;  // in parts: where threads meet next
  size_t next_taken_ = 0;  // in parts: from here on, parts of any thread
  uint32_t met_ = 0;       // threads that have ended the matrix
  uint64_t met_ns_ = 0;    // when the last one of them did
  bool is_over_ = true;
};

// Several times a touch.

inline EngineThreads::Step EngineThreads::step() {
  Thread& thread = threads_[next_];
  if (thread.has_waited) return Step::go_on;
  if (thread.has_computed) return Step::leave;
  if (thread.at < thread.end) return Step::touch;
  if (!take_part(thread, next_)) meet();
  return Step::nothing;
}

inline uint64_t EngineThreads::compute() {
  Thread& thread = threads_[next_];
  thread.has_waited = false;
  thread.has_computed = true;
  const uint64_t compute_ns = trace_.touches[thread.at].compute_ns;
  uint64_t begin_ns = clocks_[next_];
  if (!processors_ns_.empty()) {
    uint64_t& free_ns = *std::ranges::min_element(processors_ns_);
    begin_ns = std::max(begin_ns, free_ns);
    free_ns = begin_ns + compute_ns;
  }
  clocks_[next_] = begin_ns + compute_ns;
  if (threads_.size() == 1) leave();
  find_next();
  return begin_ns;
}

inline void EngineThreads::leave() {
  Thread& thread = threads_[next_];
  thread.has_waited = thread.has_computed = false;
  ++thread.at;
}

inline void EngineThreads::find_next() {
  next_ = 0;
  for (uint32_t thread = 1; thread < clocks_.size(); ++thread) {
    if (clocks_[thread] < clocks_[next_]) next_ = thread;
  }
}

/// By pass: how long it takes if every chunk is there, on enough processors.
std::vector<uint64_t> undisturbed_passes_ns(const Trace& trace);

}  // namespace weightpager::simulate
