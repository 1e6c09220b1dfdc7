// The other end of a control socket: what `weightpager stat` and its like ask through.
//
// One thread, one question at a time. A process that ends while it is asked is an error of its own
// (`process_ended`), as that is no failure of whoever watches it.
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

  /// To a process of this user or, for root, of any.
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

/// Removes the sockets of this user's processes that were killed.
void sweep_sockets();

/// This user's processes that answer, by id. Removes sockets whose process has ended.
std::vector<pid_t> find_processes();

}  // namespace weightpager::control
