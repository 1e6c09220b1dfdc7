#include "pager/attach/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/units.h"
#include "pager/model/model.h"

namespace weightpager::attach {
namespace {

// What the pager's thread says to a guest. It never waits: a guest that does not take its messages
// is cut off, and guest and server see that at their ends of the socket.
class SocketLine final : public window::GuestLine {
 public:
  explicit SocketLine(int socket) : socket_(fcntl(socket, F_DUPFD_CLOEXEC, 0)) {}

  void seal(uintptr_t address, uint64_t length_bytes) override {
    const Message message{
        .kind = Message::Kind::seal, .address = address, .length_bytes = length_bytes};
    if (!send_message(socket_.get(), message, -1, false)) hang_up();
  }
  void hang_up() override { shutdown(socket_.get(), SHUT_RDWR); }

 private:
  OwnedFd socket_;
};

OwnedFd make_socket() {
  return OwnedFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

OwnedFd process_behind(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  // A process in another process namespace has no number here.
  const bool is_known =
      getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0;
  return is_known ? OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0))) : OwnedFd();
}

}  // namespace

bool is_served(const std::string& socket_path) {
  const auto address = socket_address(socket_path);
  const OwnedFd socket = make_socket();
  return address && socket.is_open() &&
         connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
}

Result<std::unique_ptr<Server>> Server::start(const std::string& socket_path,
                                              std::unique_ptr<Pager> pager) {
  const auto address = socket_address(socket_path);
  if (!address) return tl::make_unexpected(address.error());
  if (is_served(socket_path)) {
    return fail(socket_path + ": a server of this name is running",
                "choose another --name, or stop that server", EADDRINUSE);
  }
  ::unlink(socket_path.c_str());
  OwnedFd listener = make_socket();
  // No other user may connect, not even between bind() and a change of the socket's mode.
  const mode_t mask = umask(0177);
  const bool is_bound =
      listener.is_open() &&
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  const int error = errno;
  umask(mask);
  if (!is_bound || listen(listener.get(), 16) != 0) {
    return fail(socket_path + ": cannot listen there: " + std::strerror(is_bound ? errno : error),
                "set XDG_RUNTIME_DIR to a directory of yours", error);
  }
  return std::unique_ptr<Server>(new Server(socket_path, std::move(listener), std::move(pager)));
}

Server::~Server() {
  ::unlink(socket_path_.c_str());
  for (Connection& connection : connections_) throw_out(connection);
}

Status Server::add_file(const RegionRequest& request) {
  auto file = pager_->keep_file(request);
  if (!file) return forward_error(std::move(file));
  // A file that is named twice is one file.
  const bool is_known =
      std::any_of(files_.begin(), files_.end(), [&](const File& it) { return it.served == *file; });
  if (!is_known) files_.push_back({.path = request.path, .served = *file});
  return {};
}

Status Server::run(int stop_fd) {
  for (;;) {
    std::vector<pollfd> watched = {{stop_fd, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Connection& it : connections_) watched.push_back({it.socket.get(), POLLIN, 0});
    if (poll(watched.data(), watched.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return fail(std::string("waiting for guests: ") + std::strerror(errno), "", errno);
    }
    if (watched[0].revents != 0) return {};
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (watched[i + 2].revents == 0 || take_message(connections_[i])) continue;
      throw_out(connections_[i]);
    }
    std::erase_if(connections_, [](const Connection& it) { return !it.socket.is_open(); });
    if (watched[1].revents != 0) let_in();
  }
}

void Server::let_in() {
  Connection connection;
  connection.socket =
      OwnedFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.socket.is_open()) return;
  if (connections_.size() == guests_max) {
    (void)answer(connection, fail("the server has as many guests as it takes"));
    return;
  }
  connection.process = process_behind(connection.socket.get());
  connections_.push_back(std::move(connection));
}

// Returns false if no more messages will come.
bool Server::take_message(Connection& connection) {
  Message message;
  OwnedFd descriptor;
  switch (receive_message(connection.socket.get(), message, descriptor)) {
    case Received::nothing:
      return true;
    case Received::end:
      return false;
    case Received::message:
      break;
  }
  if (message.kind == Message::Kind::list) return list_files(connection, message);
  if (connection.guest == nullptr) return welcome(connection, message, std::move(descriptor));
  if (message.kind == Message::Kind::open) return show_file(connection, message);
  return answer(connection, carry_out(connection, message));
}

bool Server::welcome(Connection& connection, const Message& hello, OwnedFd faults) {
  if (hello.kind != Message::Kind::hello || hello.value != protocol_version || !faults.is_open()) {
    (void)answer(connection, fail("this server is of another version of weightpager"));
    return false;
  }
  auto uffd = fault::Userfaultfd::adopt(faults.release());
  if (!uffd) {
    (void)answer(connection, forward_error(std::move(uffd)));
    return false;
  }
  auto guest = pager_->add_guest(
      std::make_unique<Pager::Guest>(std::move(*uffd), std::move(connection.process),
                                     std::make_unique<SocketLine>(connection.socket.get())));
  if (!guest) {
    (void)answer(connection, forward_error(std::move(guest)));
    return false;
  }
  connection.guest = *guest;
  ++guests_seen_;
  return answer(connection, {});
}

bool Server::list_files(const Connection& connection, const Message& list) {
  if (list.value != protocol_version) {
    (void)answer(connection, fail("this server is of another version of weightpager"));
    return false;
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    const io::FileIdentity& identity = files_[i].served->file.identity();
    const Message listed{.kind = Message::Kind::listed,
                         .value = i + 1 == files_.size() ? 1u : 0u,
                         .device = identity.device,
                         .inode = identity.inode};
    if (!send_message(connection.socket.get(), listed, -1, false)) return false;
  }
  return true;
}

// The file as it is now. It is served anew if it was changed, or if another file has its name by
// now and the guest wants that one.
Result<Server::File*> Server::open_file(const io::FileIdentity& wanted) {
  for (File& file : files_) {
    if (!file.served->file.identity().is_of_file(wanted)) continue;
    const std::string link = pager_->link_if_changed(file.served);
    return link.empty() ? Result<File*>(&file) : replace(file, {.path = link, .file = wanted});
  }
  for (File& file : files_) {
    struct stat facts;
    const bool is_named = stat(file.path.c_str(), &facts) == 0 && facts.st_dev == wanted.device &&
                          facts.st_ino == wanted.inode;
    if (is_named) return replace(file, {.path = file.path, .file = wanted});
  }
  return fail("not among the files that are served");
}

// Layers may lie elsewhere now. Where they cannot be told, the old layers are as good an order as
// any.
Result<Server::File*> Server::replace(File& file, const RegionRequest& request) {
  auto model = model::open_model_file(request.path);
  RegionRequest anew = request;
  anew.name = file.path;
  anew.model = model ? &*model : &file.served->layers->model();
  auto served = pager_->keep_file(anew);
  if (!served) return forward_error(std::move(served));
  pager_->forsake_file(file.served);
  file.served = *served;
  ++file.edition;
  return &file;
}

bool Server::show_file(const Connection& connection, const Message& message) {
  const auto file = open_file({.device = message.device, .inode = message.inode});
  if (!file) return answer(connection, tl::make_unexpected(file.error()));
  const window::FileBacking& backing = *(*file)->served->backing;
  const Message shown{.kind = Message::Kind::file,
                      .file = static_cast<uint32_t>(*file - files_.data()),
                      .value = backing.shows_by_itself() ? 1u : 0u,
                      .edition = (*file)->edition,
                      .size_bytes = (*file)->served->file.size_bytes()};
  return send_message(connection.socket.get(), shown, backing.view_fd(), false);
}

bool Server::answer(const Connection& connection, const Status& outcome) {
  Message message{.kind = outcome ? Message::Kind::done : Message::Kind::refused};
  if (!outcome) {
    if (outcome.error().error_number == ESTALE) message.kind = Message::Kind::changed;
    std::strncpy(message.text, outcome.error().message.c_str(), sizeof message.text - 1);
  }
  return send_message(connection.socket.get(), message, -1, false);
}

Status Server::carry_out(Connection& connection, const Message& message) {
  auto* const address = reinterpret_cast<std::byte*>(message.address);
  if (message.length_bytes > UINT64_MAX - message.address) {
    return fail("a range beyond the end of memory");
  }
  switch (message.kind) {
    case Message::Kind::add_region:
      return add_region(connection, message);
    case Message::Kind::remove:
      pager_->remove_from_guest(connection.guest, address, message.length_bytes);
      return {};
    case Message::Kind::advise:
      if (message.value > static_cast<uint64_t>(Advice::discard)) break;
      pager_->advise_for_guest(connection.guest, address, message.length_bytes,
                               static_cast<Advice>(message.value));
      return {};
    default:
      break;
  }
  return fail("not a request");
}

Status Server::add_region(Connection& connection, const Message& message) {
  if (message.file >= files_.size()) return fail("there is no such file");
  const File& file = files_[message.file];
  if (message.edition != file.edition) return fail("the file was changed", "", ESTALE);
  const uint64_t size_bytes = file.served->file.size_bytes();
  const uint64_t shown_bytes = round_up(size_bytes, os_page_bytes);
  const bool is_inside = message.offset_bytes < shown_bytes && message.length_bytes > 0 &&
                         message.length_bytes <= shown_bytes - message.offset_bytes;
  const bool is_aligned =
      message.offset_bytes % os_page_bytes == 0 && message.length_bytes % os_page_bytes == 0 &&
      message.address % huge_page_bytes == message.offset_bytes % huge_page_bytes;
  // The 2 MiB grid begins before the region, and must not begin below address 0.
  if (!is_inside || !is_aligned || message.address < huge_page_bytes) {
    return fail("a region that its file does not have");
  }
  return pager_->add_guest_region(connection.guest, file.served,
                                  {.offset_bytes = message.offset_bytes,
                                   .length_bytes = message.length_bytes,
                                   .file_size_bytes = size_bytes},
                                  reinterpret_cast<std::byte*>(message.address));
}

void Server::throw_out(Connection& connection) {
  if (connection.guest != nullptr) pager_->remove_guest(std::exchange(connection.guest, nullptr));
  connection.socket = {};
}

}  // namespace weightpager::attach
