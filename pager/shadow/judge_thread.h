// The thread on which policies are judged, at the least priority there is.
//
// A question is asked by the pager's thread and answered when there was time for it; then somebody
// rings. No lock: question and verdict belong to the judge between `ask` and the answer, to the
// asker otherwise. Cost: no thread before the first question.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "pager/shadow/judge.h"
#include "pager/telemetry/touch_record.h"

namespace weightpager::shadow {

struct Question {
  /// Stay as they are until the verdict is taken.
  std::span<const telemetry::RecordedTouch> touches;
  uint64_t chunk_bytes = 0;
  uint32_t chunks = 0;
  policy::ChunkOrder order;
  simulate::SimulatorOptions situation;
  std::vector<std::string_view> refuted;
};

class JudgeThread {
 public:
  explicit JudgeThread(Judge judge = shadow::judge) : judge_(judge) {}
  /// An answer that is under way is abandoned.
  ~JudgeThread();
  JudgeThread(const JudgeThread&) = delete;
  JudgeThread& operator=(const JudgeThread&) = delete;

  /// No verdict is awaited.
  bool is_idle() const { return state_.load() == State::idle; }
  /// Returns at once; false if there is no room for a thread. `announce` is called on the judge's
  /// thread when the verdict is there. Requires that none is awaited.
  bool ask(Question question, void (*announce)(void*), void* context);
  /// The verdict, once.
  std::optional<Verdict> take();

 private:
  enum class State : uint32_t { idle, asked, answered, stopping };

  void run(void (*announce)(void*), void* context);
  std::optional<Verdict> answer();

  const Judge judge_;
  std::atomic<State> state_{State::idle};
  std::atomic<bool> is_stopping_{false};
  Question question_;
  Verdict verdict_;
  std::thread thread_;
};

}  // namespace weightpager::shadow
