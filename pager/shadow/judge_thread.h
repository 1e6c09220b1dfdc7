// The thread on which policies are judged, at the least priority there is.
//
// The pager's thread asks a question. The judge's thread answers it when it gets processor time,
// and then announces the answer. There is no lock: question and verdict belong to the judge between
// `ask` and the answer, and to the asker otherwise. Cost: no thread before the first question.
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
  /// The recorded touches, which must not change until the verdict is taken.
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
  /// Abandons an answer that is under way.
  ~JudgeThread();
  JudgeThread(const JudgeThread&) = delete;
  JudgeThread& operator=(const JudgeThread&) = delete;

  /// Whether no question is open.
  bool is_idle() const { return state_.load() == State::idle; }
  /// Returns at once; false if no thread can be started. `announce(context)` of the first call is
  /// called on the judge's thread whenever a verdict is there. Requires is_idle().
  bool ask(Question question, void (*announce)(void*), void* context);
  /// The verdict, once it is there; each verdict is returned once.
  std::optional<Verdict> take();

 private:
  enum class State : uint32_t { idle, asked, answered, stopping };

  void run(void (*announce)(void*), void* context);
  Verdict answer();

  const Judge judge_;
  std::atomic<State> state_{State::idle};
  std::atomic<bool> is_stopping_{false};
  Question question_;
  Verdict verdict_;
  std::thread thread_;
};

}  // namespace weightpager::shadow
