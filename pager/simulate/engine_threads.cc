#include "pager/simulate/engine_threads.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::simulate {

EngineThreads::EngineThreads(const Trace& trace, uint32_t processors)
    : trace_(trace), threads_(trace.threads), clocks_(trace.threads, never_ns) {
  if (processors < trace.threads) processors_ns_.assign(processors, 0);
}

void EngineThreads::begin_pass(size_t pass, uint64_t now_ns) {
  const uint64_t begin = trace_.pass_begins[pass];
  pass_end_ = trace_.pass_end(pass);
  is_over_ = false;
  met_ns_ = now_ns;
  if (trace_.parts.empty()) {
    threads_.front() = {.at = begin, .end = pass_end_};
    matrix_end_ = 0;
    clocks_.front() = now_ns;
    return;
  }
  const auto first = std::ranges::lower_bound(trace_.parts, begin, {}, &ThreadPart::begin);
  begin_matrix(static_cast<size_t>(first - trace_.parts.begin()));
}

void EngineThreads::begin_matrix(size_t part) {
  next_taken_ = part;
  const auto meets = [](const ThreadPart& it) { return it.is_met; };
  const auto from = trace_.parts.begin() + static_cast<std::ptrdiff_t>(part) + 1;
  matrix_end_ =
      static_cast<size_t>(std::find_if(from, trace_.parts.end(), meets) - trace_.parts.begin());
  for (Thread& thread : threads_) thread = {.next_own = part};
  std::ranges::fill(clocks_, met_ns_);
  next_ = 0;
  met_ = 0;
}

// Its own parts first, then what is there for everybody.
bool EngineThreads::take_part(Thread& thread, uint32_t number) {
  for (size_t part = thread.next_own; part < matrix_end_; ++part) {
    if (trace_.parts[part].thread != number) continue;
    thread.next_own = part + 1;
    set_part(thread, part);
    return true;
  }
  thread.next_own = matrix_end_;
  for (; next_taken_ < matrix_end_; ++next_taken_) {
    if (trace_.parts[next_taken_].thread != any_thread) continue;
    set_part(thread, next_taken_++);
    return true;
  }
  return false;
}

void EngineThreads::set_part(Thread& thread, size_t part) {
  thread.at = trace_.parts[part].begin;
  thread.end =
      part + 1 < trace_.parts.size() ? trace_.parts[part + 1].begin : trace_.touches.size();
}

// The next thread has done its share of the matrix. The last one to do so ends it for all.
void EngineThreads::meet() {
  met_ns_ = std::exchange(clocks_[next_], never_ns);
  if (++met_ < threads_.size()) return find_next();
  const bool is_end =
      matrix_end_ >= trace_.parts.size() || trace_.parts[matrix_end_].begin >= pass_end_;
  is_over_ = is_end;
  met_ = 0;
  if (!is_end) begin_matrix(matrix_end_);
}

void EngineThreads::wait() {
  clocks_[next_] = never_ns;
  find_next();
}

void EngineThreads::resume(uint32_t thread, uint64_t go_on_ns) {
  WP_ASSERT(clocks_[thread] == never_ns);
  threads_[thread].has_waited = true;
  clocks_[thread] = go_on_ns;
  find_next();
}

std::vector<uint64_t> undisturbed_passes_ns(const Trace& trace) {
  EngineThreads threads(trace, trace.threads);
  std::vector<uint64_t> passes_ns;
  for (size_t pass = 0; pass < trace.pass_begins.size(); ++pass) {
    threads.begin_pass(pass, 0);
    while (!threads.is_pass_over()) {
      const EngineThreads::Step step = threads.step();
      if (step == EngineThreads::Step::leave) threads.leave();
      if (step == EngineThreads::Step::touch) threads.compute();
    }
    passes_ns.push_back(threads.end_ns());
  }
  return passes_ns;
}

}  // namespace weightpager::simulate
