#include "pager/attach/protocol.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "pager/base/system_calls.h"

namespace weightpager::attach {
namespace {

// Room for one descriptor, aligned as the kernel's header needs it.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

Result<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(path + ": too long for a socket's name", "choose a shorter --name", ENAMETOOLONG);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<std::vector<model::FileId>> served_files(const std::string& socket_path) {
  const auto address = socket_address(socket_path);
  if (!address) return tl::make_unexpected(address.error());
  const OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.is_open() ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return fail(socket_path + ": no server there: " + std::strerror(errno), "", errno);
  }
  std::vector<model::FileId> files;
  Message message{.kind = Message::Kind::list, .value = protocol_version};
  bool is_fine = send_message(socket.get(), message);
  while (is_fine) {
    OwnedFd none;
    is_fine = receive_message(socket.get(), message, none) == Received::message;
    if (is_fine && message.kind == Message::Kind::refused) return fail(message.text);
    is_fine = is_fine && message.kind == Message::Kind::listed;
    if (!is_fine) break;
    files.push_back({message.device, message.inode});
    if (message.value == 1) return files;
  }
  return fail(socket_path + ": the server speaks otherwise than this program",
              "use server and engine of one version of weightpager", EPROTO);
}

bool send_message(int socket, const Message& message, int fd, bool waits) {
  iovec part{const_cast<Message*>(&message), sizeof message};
  Control control{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  if (fd >= 0) {
    packet.msg_control = &control;
    packet.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t sent;
  do {
    sent = kernel::sendmsg(socket, &packet, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT));
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message);
}

Received receive_message(int socket, Message& message, OwnedFd& fd) {
  iovec part{&message, sizeof message};
  Control control{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = &control;
  packet.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = kernel::recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::nothing;
  size_t descriptors = 0;
  for (cmsghdr* it = CMSG_FIRSTHDR(&packet); received >= 0 && it != nullptr;
       it = CMSG_NXTHDR(&packet, it)) {
    if (it->cmsg_level != SOL_SOCKET || it->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= it->cmsg_len; at += sizeof(int)) {
      int number;
      std::memcpy(&number, reinterpret_cast<const char*>(it) + at, sizeof number);
      fd = OwnedFd(number);
      ++descriptors;
    }
  }
  // More than one descriptor, or a message of another length, does not come from this version.
  const bool is_whole = received == static_cast<ssize_t>(sizeof message) &&
                        (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && descriptors <= 1;
  message.text[sizeof message.text - 1] = '\0';
  return is_whole ? Received::message : Received::end;
}

}  // namespace weightpager::attach
