// A pager that serves several processes from one window: each byte of a model is read once, and
// lies in memory once, for all of them.
//
// It is an ordinary pager (pager.h) whose regions lie in other processes. This is the part that
// speaks with them (protocol.h): it lets guests in, checks what they say, and passes it on to the
// pager as commands. A guest that says something impossible, or that cannot be served, is thrown
// out; the others notice nothing. Guests are the same user's processes: a guest that wants to can
// slow the server down, but it cannot change what others read, because it has the models' memory
// for reading only.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "pager/attach/protocol.h"
#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/pager.h"

namespace weightpager::attach {

inline constexpr size_t guests_max = 64;

class Server {
 public:
  /// Listens at `socket_path`, which only this user can connect to. Replaces the socket of a server
  /// that has died; fails if one is alive there. Takes ownership of the pager, which has to be one
  /// that serves guests.
  static Result<std::unique_ptr<Server>> start(const std::string& socket_path,
                                               std::unique_ptr<Pager> pager);
  /// Guests see their server end. Removes the socket.
  ~Server();

  /// Serves a file. To be called before run(). Only the request's path, name and model count.
  Status add_file(const RegionRequest& request);

  /// Serves guests until `stop_fd` can be read.
  Status run(int stop_fd);

  uint64_t guests_seen() const { return guests_seen_; }

 private:
  /// A file as it is served now: after a change it is served anew, for guests that map it from then
  /// on.
  struct File {
    std::string path;
    const ServedFile* served = nullptr;
    uint64_t edition = 0;
  };
  struct Connection {
    OwnedFd socket;
    OwnedFd process;                // the guest's pidfd, if there is one
    Pager::Guest* guest = nullptr;  // nullptr: it has not said hello yet
  };

  Server(std::string socket_path, OwnedFd listener, std::unique_ptr<Pager> pager)
      : socket_path_(std::move(socket_path)),
        listener_(std::move(listener)),
        pager_(std::move(pager)) {}

  void let_in();
  bool take_message(Connection& connection);
  bool list_files(const Connection& connection, const Message& list);
  bool welcome(Connection& connection, const Message& hello, OwnedFd faults);
  bool answer(const Connection& connection, const Status& outcome);
  Result<File*> open_file(const io::FileIdentity& wanted);
  Result<File*> replace(File& file, const RegionRequest& request);
  bool show_file(const Connection& connection, const Message& message);
  Status add_region(Connection& connection, const Message& message);
  Status carry_out(Connection& connection, const Message& message);
  void throw_out(Connection& connection);

  const std::string socket_path_;
  OwnedFd listener_;
  std::unique_ptr<Pager> pager_;
  std::vector<File> files_;
  std::vector<Connection> connections_;
  uint64_t guests_seen_ = 0;
};

/// Whether a server answers at `socket_path`.
bool is_served(const std::string& socket_path);

}  // namespace weightpager::attach
