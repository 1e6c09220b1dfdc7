// A socket whose clients send lines and get a line for each: libuv's loop around one function.
//
// Problem. Whoever connects may be slow, silent or hostile, and what is served lives in an engine's
// process, whose memory and time are not to be had for the asking.
//
// Idea. Everything is bounded: the number of clients, the length of a request, and what waits to be
// sent, which is one answer: while it waits its client is not read from, so that whoever does not
// read is not answered either, and is closed after a while. Only the socket's owner and root are
// let in, as the kernel says who they are. The loop's thread runs at the least priority: with a
// processor that others want it gets one part in 70.
//
// Knows nothing of what the lines say, but that what it has to say itself is JSON, too.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::control {

struct LineServerOptions {
  size_t clients_max = 16;
  /// The end of the line included.
  size_t request_bytes_max = 4096;
  /// A client that takes nothing of its answer for so long is closed.
  uint64_t unread_ms_max = 10'000;
};

class LineServer {
 public:
  /// Takes a request without its end, and gives the answer without one. On the loop's thread.
  using Answer = std::function<std::string(std::string_view request)>;

  /// Listens at `path`; a socket that is there already is taken for one whose process has ended.
  static Result<std::unique_ptr<LineServer>> listen(const std::string& path, Answer answer,
                                                    const LineServerOptions& options = {});
  /// Removes the socket. Requires that run() has returned, or was never called.
  ~LineServer();
  LineServer(const LineServer&) = delete;
  LineServer& operator=(const LineServer&) = delete;

  /// Serves until stop(), on the calling thread.
  void run();
  /// For what is to be served by the same thread; closes its own handles before the loop can end.
  uv_loop_t& loop() { return loop_; }
  /// Any thread that shares the descriptors of the one that called listen().
  void stop();

 private:
  struct Client;

  LineServer(Answer answer, const LineServerOptions& options);

  Status open(const std::string& path);
  void let_in();
  void take(Client& client, ssize_t length_bytes);
  void take_lines(Client& client);
  void send(Client& client, std::string answer);
  void refuse(Client& client, const std::string& why);
  void close(Client& client);
  void close_all();

  const Answer answer_;
  const LineServerOptions options_;
  uv_loop_t loop_{};
  uv_pipe_t listener_{};
  uv_async_t stopping_{};
  bool is_open_ = false;
  bool has_run_ = false;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace weightpager::control
