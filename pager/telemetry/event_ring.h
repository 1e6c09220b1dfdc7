// What the pager does, event by event, while somebody asks for a trace.
//
// A ring between two threads: the pager's adds, whoever traces takes out. Neither waits for the
// other; what finds the ring full is counted and lost. Cost: one branch an event where nobody
// traces, 24 bytes and a few nanoseconds where somebody does.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weightpager::telemetry {

enum class EventKind : uint8_t {
  touch,   // an engine thread came to a chunk that is not mapped, and waits
  served,  // … and runs on
  read,    // a read was started
  arrive,  // … and has ended
  map,     // shown to the engine
  evict,   // gone from memory
  hide,    // out of the engine's sight, its bytes kept
};

struct Event {
  uint64_t time_ns = 0;
  uint32_t chunk = 0;
  /// Chunks from `chunk` on.
  uint32_t count = 1;
  /// Of a touch: the engine's thread, 0 where the kernel does not tell.
  uint32_t thread = 0;
  EventKind kind = EventKind::touch;
  /// Of a touch: what the chunk was like, as window::ChunkState.
  uint8_t state = 0;
};

class EventRing {
 public:
  static constexpr size_t events_max = 1u << 16;

  /// The pager's thread.
  void add(const Event& event) {
    const uint64_t end = end_.load(std::memory_order_relaxed);
    if (end - begin_.load(std::memory_order_acquire) == events_max) {
      lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    events_[end % events_max] = event;
    end_.store(end + 1, std::memory_order_release);
  }

  /// One other thread: the oldest, in order; returns how many these are.
  size_t take(std::span<Event> events) {
    const uint64_t begin = begin_.load(std::memory_order_relaxed);
    const uint64_t end = end_.load(std::memory_order_acquire);
    size_t count = 0;
    while (count < events.size() && begin + count < end) {
      events[count] = events_[(begin + count) % events_max];
      ++count;
    }
    begin_.store(begin + count, std::memory_order_release);
    return count;
  }
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> begin_{0};
  std::atomic<uint64_t> end_{0};
  std::atomic<uint64_t> lost_{0};
  std::array<Event, events_max> events_;
};

}  // namespace weightpager::telemetry
