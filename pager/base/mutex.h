// A mutex that says what it guards, and a compiler that checks it.
//
// Data says which mutex it needs (WP_GUARDED_BY), a function says which one its caller holds
// (WP_REQUIRES). Clang refuses code that does otherwise (tests/style/locks.sh); for other compilers
// the words mean nothing, and the types are those of the standard library.
//
// What happens in a lambda is checked by itself, as if nothing were locked: conditions are waited
// for in loops, and a lambda that is called under the lock says so (WP_REQUIRES).
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define WP_FOR_CLANG(attribute) __attribute__((attribute))
#else
#define WP_FOR_CLANG(attribute)
#endif

/// Of data: read and written under the mutex only.
#define WP_GUARDED_BY(mutex) WP_FOR_CLANG(guarded_by(mutex))
/// Of a function: called, and left, with the mutex locked.
#define WP_REQUIRES(mutex) WP_FOR_CLANG(requires_capability(mutex))
/// Of a function: locks the mutex, and leaves it so; unlocks what its caller has locked.
#define WP_LOCKS(...) WP_FOR_CLANG(acquire_capability(__VA_ARGS__))
#define WP_UNLOCKS(...) WP_FOR_CLANG(release_capability(__VA_ARGS__))
/// Of a lambda that code which knows nothing of the mutex calls under it.
#define WP_UNCHECKED WP_FOR_CLANG(no_thread_safety_analysis)

namespace weightpager {

class WP_FOR_CLANG(capability("mutex")) Mutex {
 public:
  void lock() WP_LOCKS() { mutex_.lock(); }
  void unlock() WP_UNLOCKS() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Holds a mutex for as long as it lives.
class WP_FOR_CLANG(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) WP_LOCKS(mutex) : mutex_(mutex) { mutex.lock(); }
  ~MutexLock() WP_UNLOCKS() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// What threads sleep for. They may wake for nothing, so they look again.
class Condition {
 public:
  /// Lets go of the mutex while it sleeps.
  void wait(Mutex& mutex) WP_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  /// Returns false when the time has come.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point time) WP_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool is_early = changed_.wait_until(lock, time) == std::cv_status::no_timeout;
    lock.release();
    return is_early;
  }
  void wake_one() { changed_.notify_one(); }
  void wake_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace weightpager
