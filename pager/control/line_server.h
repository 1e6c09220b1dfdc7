// A socket whose clients send lines and get a line for each.
//
// What is bounded, and how, is in stream_server.h; while an answer waits to be sent its client is
// not read from, so that whoever does not read is not answered either, and is closed after a while.
// Only the socket's owner and root are let in, as the kernel says who they are.
//
// Knows nothing of what the lines say, but that what it has to say itself is JSON, too.
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
  /// Takes a request without its end, and gives the answer without one. On the loop's thread.
  using Answer = std::function<std::string(std::string_view request)>;

  /// Listens at `path`; a socket that is there already is taken for one whose process has ended.
  /// Nobody ever finds one there that does not listen yet, as clients sweep those away. Removes it
  /// when it is closed. A client that takes nothing of its answer for as long as
  /// patience lasts is closed.
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
