// A mutex whose use the compiler checks.
//
// Data declares the mutex that guards it (WP_GUARDED_BY); a function declares the mutex that its
// caller holds (WP_REQUIRES). Clang refuses code that breaks these rules (tests/style/locks.sh).
// For other compilers the words mean nothing, and the types are those of the standard library.
//
// Clang checks the body of a lambda by itself, as if nothing were locked. So code waits for
// conditions in loops, and a lambda that is called under the lock declares it (WP_REQUIRES).
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define WP_FOR_CLANG(attribute) __attribute__((attribute))
#else
#define WP_FOR_CLANG(attribute)
#endif

/// For data: it is read and written under the mutex only.
#define WP_GUARDED_BY(mutex) WP_FOR_CLANG(guarded_by(mutex))
/// For a function: the mutex is locked when it is called and when it returns.
#define WP_REQUIRES(mutex) WP_FOR_CLANG(requires_capability(mutex))
/// For functions: WP_LOCKS locks the mutex and returns with it locked; WP_UNLOCKS unlocks the mutex
/// that its caller has locked.
#define WP_LOCKS(...) WP_FOR_CLANG(acquire_capability(__VA_ARGS__))
#define WP_UNLOCKS(...) WP_FOR_CLANG(release_capability(__VA_ARGS__))
/// For a lambda that is called under the mutex by code that does not know the mutex.
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

/// Holds a mutex while the object lives.
class WP_FOR_CLANG(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) WP_LOCKS(mutex) : mutex_(mutex) { mutex.lock(); }
  ~MutexLock() WP_UNLOCKS() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// A condition that threads sleep for. A thread may wake without cause, so it must check again.
class Condition {
 public:
  /// Unlocks the mutex while it sleeps.
  void wait(Mutex& mutex) WP_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  /// Returns false when the time is over.
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
