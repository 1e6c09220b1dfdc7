#include "pager/shadow/judge_thread.h"

#include <new>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/thread.h"

namespace weightpager::shadow {

JudgeThread::~JudgeThread() {
  if (!thread_.joinable()) return;
  is_stopping_.store(true);
  state_.store(State::stopping);
  state_.notify_one();
  thread_.join();
}

bool JudgeThread::ask(Question question, void (*announce)(void*), void* context) {
  WP_ASSERT(state_.load() == State::idle);
  if (!thread_.joinable()) {
    auto started = start_thread("wp-judge", [this, announce, context] { run(announce, context); });
    if (!started) return false;
    thread_ = std::move(*started);
  }
  question_ = std::move(question);
  question_.situation.is_abandoned = &is_stopping_;
  state_.store(State::asked);
  state_.notify_one();
  return true;
}

std::optional<Verdict> JudgeThread::take() {
  if (state_.load() != State::answered) return {};
  const Verdict verdict = verdict_;
  state_.store(State::idle);
  return verdict;
}

void JudgeThread::run(void (*announce)(void*), void* context) {
  take_least_priority();
  for (;;) {
    for (State state = state_.load(); state != State::asked; state = state_.load()) {
      if (is_stopping_.load()) return;
      state_.wait(state);
    }
    const Verdict verdict = answer();
    State asked = State::asked;
    if (is_stopping_.load()) return;
    verdict_ = verdict;
    if (!state_.compare_exchange_strong(asked, State::answered)) return;
    announce(context);
  }
}

// Without a verdict of the judge's, and out of memory, the verdict is for the policy in use.
Verdict JudgeThread::answer() {
  const Verdict for_policy_in_use{
      .best = policy::policy_name(policy::policy_number(question_.situation.policy))};
  try {
    simulate::Trace sample;
    sample.chunk_bytes = question_.chunk_bytes;
    sample.chunks = question_.chunks;
    sample.order = std::move(question_.order);
    sample.touches = simulate::touches_of(question_.touches);
    return judge_(std::move(sample), question_.situation, question_.refuted)
        .value_or(for_policy_in_use);
  } catch (const std::bad_alloc&) {
    return for_policy_in_use;
  }
}

}  // namespace weightpager::shadow
