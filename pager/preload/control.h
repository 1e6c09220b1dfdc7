// The control socket of an engine's process. Users who may see and change its pager connect to it.
#pragma once

#include "pager/control/hosted_socket.h"

namespace weightpager::preload {

/// Begins to open the socket, and returns at once.
void open_control_socket(control::HostedSocket::Answer answer);

/// Called at exit.
void remove_control_socket();

/// Waits until the socket's libraries have been loaded, for a second at most: a child process would
/// inherit the lock of the dynamic loader.
void before_fork_of_control_socket();
/// Called in a child process: the socket belongs to the parent.
void forget_control_socket();

}  // namespace weightpager::preload
