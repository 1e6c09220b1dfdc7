// The control socket of an engine's process: who may see and change its pager does so through it.
#pragma once

#include "pager/control/hosted_socket.h"

namespace weightpager::preload {

/// Begins to open it, and returns at once.
void open_control_socket(control::HostedSocket::Answer answer);

/// At exit.
void remove_control_socket();

/// Libraries are being loaded, whose lock a child process would inherit: waits until that is over,
/// a second at most.
void before_fork_of_control_socket();
/// In a child process: the socket is the parent's.
void forget_control_socket();

}  // namespace weightpager::preload
