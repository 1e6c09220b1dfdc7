// A socket whose clients send lines and get a line for each.
//
// stream_server.h says what is bounded, and how. While an answer waits to be sent, nothing is read
// from its client. So a client that does not read gets no further answers, and is closed after a
// while. Only the socket's owner and root are let in; the kernel says who a client is.
//
// The server does not know what the lines mean. Only its own errors are JSON, as the answers are.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "pager/control/stream_server.h"

namespace weightpager::control {

class LineServer final : public StreamServer {
 public:
  /// Takes a request and returns the answer, both without the line's end. Called on the loop's
  /// thread.
  using Answer = std::function<std::string(std::string_view request)>;

  /// Listens at `path`. A socket that is there already is replaced: its process is taken to have
  /// ended. The socket listens before it appears at `path`, because clients remove sockets at which
  /// nobody listens. The server removes its socket when it is closed. It closes a client that takes
  /// nothing of its answer for as long as patience lasts.
  static Result<std::unique_ptr<LineServer>> listen(Loop& loop, const std::string& path,
                                                    Answer answer, const ClientLimits& limits = {});
  ~LineServer() override;

 private:
  LineServer(Loop& loop, Answer answer, const ClientLimits& limits)
      : StreamServer(loop, limits), answer_(std::move(answer)) {}

  Status open(const std::string& path);
  void on_connect(Client& client, bool is_one_too_many) override;
  void on_received(Client& client) override;
  void on_sent(Client& client) override;
  void watch_progress(Client& client);
  void refuse(Client& client, const std::string& why);

  const Answer answer_;
  std::string path_;  // empty: not there yet
};

}  // namespace weightpager::control
