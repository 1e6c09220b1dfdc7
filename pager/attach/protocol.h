// What a guest and its server say to each other, over a local socket that keeps messages apart
// (SOCK_SEQPACKET).
//
//   guest                                    server
//   hello, with its userfaultfd       ──▶
//                                     ◀──    done
//   open: a file, by device and inode ──▶
//                                     ◀──    file: as it is served now, with a descriptor of its
//                                            memory for reading
//   add_region / remove / advise      ──▶
//                                     ◀──    done
//   list, also before hello           ──▶
//                                     ◀──    listed, one for each file; the last one says so
//
// Instead of an answer, each request can be refused, with a reason. A file that was changed is
// served anew: a guest opens a file each time that it maps it, and if the file was changed in
// between, the region is refused as changed.
//
//                                     ◀──    seal, at any time: bytes that could not be read
//
// A side that closes the socket is gone. A guest without its server seals all its regions; a server
// forgets a guest that is gone. Both ends belong to one user (the socket's permissions see to that)
// and are of one version (hello says which).
#pragma once

#include <sys/un.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/model/recognise.h"

namespace weightpager::attach {

inline constexpr uint64_t protocol_version = 3;

struct Message {
  enum class Kind : uint32_t {
    hello,
    open,
    file,
    add_region,
    remove,
    advise,
    done,
    refused,
    changed,  // refused, because the file is served anew: open it again
    seal,
    list,
    listed
  };
  Kind kind = Kind::hello;
  /// file: its number from 0 on. add_region: which file.
  uint32_t file = 0;
  /// hello, list: protocol_version. file: 1 if the memory is the kernel module's, which tells
  /// touches by itself. listed: 1 for the last one. advise: the Advice.
  uint64_t value = 0;
  /// file, add_region: how many times the file was served anew.
  uint64_t edition = 0;
  /// add_region: where in the file. The range (also of remove, advise and seal) lies in the guest.
  uint64_t offset_bytes = 0;
  uint64_t address = 0;
  uint64_t length_bytes = 0;
  /// open, listed: which file it is. file: its size.
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  /// refused: why.
  char text[160] = {};
};

enum class Received {
  message,
  nothing,  // no message yet (only from a socket that does not block)
  end,      // the other side is gone, or sent something that is no message
};

/// The files that the server serves. The caller does not become its guest.
Result<std::vector<model::FileId>> served_files(const std::string& socket_path);

/// Where a server listens. Fails for a path that is too long to be a socket's name.
Result<sockaddr_un> socket_address(const std::string& path);

/// Sends the message, with a descriptor unless `fd` is negative. Returns false if the other side is
/// gone, or (with `waits` false) if no more messages fit, because it has not taken the last ones.
bool send_message(int socket, const Message& message, int fd = -1, bool waits = true);

/// Takes the next message; `fd` gets the descriptor that came with it, if one did.
Received receive_message(int socket, Message& message, OwnedFd& fd);

}  // namespace weightpager::attach
