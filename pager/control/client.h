// The client's end of a control socket: `weightpager stat` and similar commands ask through it.
//
// One thread, one question at a time. If a process ends while it is asked, the error has a number
// of its own (`process_ended`), because that is no failure of the command that watches the process.
#pragma once

#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/control/request.h"

namespace weightpager::control {

/// Error::error_number of a process that has ended.
inline constexpr int process_ended = ESRCH;

class Client {
 public:
  using Json = nlohmann::ordered_json;

  /// Connects to a process of this user or, for root, of any user.
  static Result<Client> connect(pid_t process_id);

  /// Sends the request and waits for its answer. A refusal is an error, with the process's words.
  Result<Json> ask(const Json& request);
  pid_t process_id() const { return process_id_; }

 private:
  Client(pid_t process_id, OwnedFd socket) : process_id_(process_id), socket_(std::move(socket)) {}
  Result<std::string> receive_line();
  tl::unexpected<Error> lost() const;

  pid_t process_id_;
  OwnedFd socket_;
  std::string received_;
};

/// Removes the sockets that killed processes of this user have left behind.
void sweep_sockets();

/// The ids of this user's processes that answer. Removes sockets whose process has ended.
std::vector<pid_t> find_processes();

}  // namespace weightpager::control
