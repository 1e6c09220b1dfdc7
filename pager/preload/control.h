// The control socket of an engine's process: who may see and change its pager does so through it.
//
// It is no part of paging: where it cannot be had, one line says so and the engine runs on.
#pragma once

#include "pager/pager.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::preload {

/// Begins to open it, and returns at once. Neither is owned; both live as long as the process.
void open_control_socket(Pager& pager, const telemetry::Telemetry& telemetry);

/// At exit.
void remove_control_socket();

/// Libraries are being loaded, whose lock a child process would inherit: waits until that is over,
/// a second at most.
void before_fork_of_control_socket();
/// In a child process: the socket is the parent's.
void forget_control_socket();

}  // namespace weightpager::preload
