#include "pager/control/client.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "pager/control/runtime_directory.h"

namespace weightpager::control {
namespace {

constexpr time_t answer_s_max = 10;
constexpr size_t answer_bytes_max = 64u << 20;

/// Returns a connected socket, or sets errno.
OwnedFd connect_to(const std::string& path) {
  OwnedFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!socket.is_open() || path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.data(), path.size());
  // A stopped process never answers; do not wait for it forever.
  const timeval patience{answer_s_max, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  return socket;
}

bool is_running(pid_t process_id) { return kill(process_id, 0) == 0 || errno == EPERM; }

/// Connects. Removes the socket if its process has ended, because nobody will listen at it again.
OwnedFd connect_or_sweep(const std::string& path) {
  OwnedFd socket = connect_to(path);
  if (!socket.is_open() && errno == ECONNREFUSED) unlink(path.c_str());
  return socket;
}

/// "1234.sock" → 1234; 0 for any other name.
pid_t process_of(std::string_view name) {
  if (!name.ends_with(socket_ending)) return 0;
  name.remove_suffix(socket_ending.size());
  pid_t process_id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process_id);
  return error == std::errc{} && end == name.data() + name.size() ? process_id : 0;
}

/// Removes the socket that a killed process had made but not opened yet. The socket of a process
/// that runs stays: the process may be about to open it.
void sweep_unheard(const std::string& directory, std::string_view name) {
  if (!name.ends_with(unheard_ending)) return;
  const pid_t process_id = process_of(name.substr(0, name.size() - unheard_ending.size()));
  if (process_id <= 0 || is_running(process_id)) return;
  unlink((directory + "/" + std::string(name)).c_str());
}

uid_t owner_of(pid_t process_id) {
  struct stat facts;
  const std::string path = "/proc/" + std::to_string(process_id);
  return stat(path.c_str(), &facts) == 0 ? facts.st_uid : geteuid();
}

}  // namespace

Result<Client> Client::connect(pid_t process_id) {
  const std::string name = std::to_string(process_id);
  std::vector<std::string> directories = runtime_directories(geteuid());
  if (const uid_t owner = owner_of(process_id); owner != geteuid()) {
    for (std::string& path : runtime_directories(owner)) directories.push_back(std::move(path));
  }
  for (const std::string& directory : directories) {
    OwnedFd socket = connect_or_sweep(directory + "/" + name + std::string(socket_ending));
    if (socket.is_open()) return Client(process_id, std::move(socket));
  }
  const char* const hint = "`weightpager ps` lists those that there are";
  if (!is_running(process_id)) {
    return fail("there is no process " + name, hint, process_ended);
  }
  return fail("process " + name + " has no control socket that you can reach",
              "it may have mapped no model yet, or be another user's; " + std::string(hint),
              ENOENT);
}

Result<Client::Json> Client::ask(const Json& request) {
  const std::string line = request.dump() + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t count = send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    // The process may have said why before it hung up.
    if (count < 0) break;
    sent += static_cast<size_t>(count);
  }
  const auto answer = receive_line();
  if (!answer) return tl::make_unexpected(answer.error());
  Json json = Json::parse(*answer, nullptr, false);
  const bool is_answer = json.is_object() && json.contains("ok") && json["ok"].is_boolean();
  if (!is_answer) {
    return fail("process " + std::to_string(process_id_) + " answered something else than asked",
                "it may be of another version of weightpager", EPROTO);
  }
  if (json["ok"].get<bool>()) return json;
  return fail(json.value("error", "refused"), json.value("hint", ""), EPROTO);
}

Result<std::string> Client::receive_line() {
  char piece[64 << 10];
  for (;;) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    const ssize_t count = recv(socket_.get(), piece, sizeof piece, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return fail("process " + std::to_string(process_id_) + " does not answer",
                  "it may be stopped: kill -CONT " + std::to_string(process_id_), EAGAIN);
    }
    if (count <= 0 || received_.size() > answer_bytes_max) return lost();
    received_.append(piece, static_cast<size_t>(count));
  }
}

tl::unexpected<Error> Client::lost() const {
  // A process closes its socket a moment before it ends.
  return fail("process " + std::to_string(process_id_) + " has ended", "", process_ended);
}

namespace {

/// Calls `act(process id, path)` for each of this user's sockets.
template <typename Act>
void for_each_socket(Act act) {
  for (const std::string& path : runtime_directories(geteuid())) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
    if (directory == nullptr) continue;
    while (const dirent* const entry = readdir(directory.get())) {
      sweep_unheard(path, entry->d_name);
      const pid_t process_id = process_of(entry->d_name);
      if (process_id > 0) act(process_id, path + "/" + entry->d_name);
    }
  }
}

}  // namespace

void sweep_sockets() {
  for_each_socket([](pid_t process_id, const std::string& path) {
    if (!is_running(process_id)) (void)connect_or_sweep(path);
  });
}

std::vector<pid_t> find_processes() {
  std::vector<pid_t> found;
  for_each_socket([&](pid_t process_id, const std::string& path) {
    if (connect_or_sweep(path).is_open()) found.push_back(process_id);
  });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace weightpager::control
