// How other people's processes have their control socket served by a library of its own
// (hosted_socket.h).
//
// Problem. libuv is shared, and cannot be linked into the interposer; and an engine's process may
// have another libuv, whose symbols are in front of everybody's (node exports those that it has
// inside).
//
// Idea. libweightpager-control.so, which brings libuv.so.1 along, is opened when a pager has
// started, by a thread of its own, so that its symbols come before all others for itself and are
// seen by nobody else (RTLD_DEEPBIND, RTLD_LOCAL). A sanitizer's runtime allows no such order:
// beside one its symbols come last, which is as good where the process has no libuv of its own, and
// where it has one there is no socket. Where it or libuv is missing, everything else works. What
// passes between the two is this structure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightpager::control {

inline constexpr uint32_t plugin_version = 4;
inline constexpr char plugin_file[] = "libweightpager-control.so";
inline constexpr char plugin_entry[] = "weightpager_control_serve";

struct PluginHost {
  uint32_t version = plugin_version;
  /// Handed to the functions below, which are called on the serving thread.
  void* context = nullptr;
  /// Where to listen.
  const char* socket_path = nullptr;
  /// Calls `reply` once with the answer to a request.
  void (*answer)(void* context, const char* request, size_t request_bytes,
                 void (*reply)(void* reply_context, const char* answer, size_t answer_bytes),
                 void* reply_context) = nullptr;
  /// Once, before anything is made at socket_path; false: the process is ending, and nothing is to
  /// be made any more.
  bool (*may_open)(void* context) = nullptr;
  /// Once, when it listens (nullptr), or cannot: why.
  void (*opened)(void* context, const char* why_not) = nullptr;
  /// Where to serve HTTP, too (http_pages.h): a port, 0 for any that is free; -1: not at all.
  int http_port = -1;
  /// Ends it when it can be read; -1: nothing does.
  int stop_fd = -1;
  /// Once where http_port asks for it: at which port it is (nullptr), or why there is none.
  void (*http_opened)(void* context, unsigned port, const char* why_not) = nullptr;
};

/// Serves on the calling thread, which owns its descriptors alone; without stop_fd it does not
/// return once it listens.
using PluginEntry = void (*)(const PluginHost* host);

}  // namespace weightpager::control
