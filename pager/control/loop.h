// libuv's loop: one thread runs it for all servers on it, until somebody calls stop().
#pragma once

#include <uv.h>

#include <memory>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::control {

class StreamServer;

class Loop {
 public:
  static Result<std::unique_ptr<Loop>> open();
  /// Requires that nobody runs the loop, and that its servers are destroyed.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Serves until stop(), on the calling thread.
  void run() { uv_run(&loop_, UV_RUN_DEFAULT); }
  /// May be called by any thread that shares the descriptors of the one that called open().
  void stop() { uv_async_send(&stopping_); }
  /// Called before run(): the loop stops when the descriptor can be read. The caller keeps the
  /// descriptor.
  Status stop_when_readable(int fd);

 private:
  friend class StreamServer;

  Loop() = default;
  void close_all();

  bool is_open_ = false;
  uv_loop_t loop_{};
  uv_async_t stopping_{};
  uv_poll_t watching_{};
  bool is_watching_ = false;
  std::vector<StreamServer*> servers_;
};

}  // namespace weightpager::control
