// The interface of the library that serves the control socket in processes that are not ours
// (hosted_socket.h).
//
// Problem. libuv is a shared library and cannot be linked into the interposer. Also, an engine's
// process may have another libuv, whose symbols come before everybody else's (node exports the
// symbols of the libuv inside it).
//
// Idea. When a pager has started, a thread of its own opens libweightpager-control.so, which brings
// libuv.so.1 along. The library finds its own symbols before all others, and nobody else sees them
// (RTLD_DEEPBIND, RTLD_LOCAL). A sanitizer's runtime does not allow that order: beside one the
// library's symbols come last. That is as good if the process has no libuv of its own; if it has
// one, there is no socket. If the library or libuv is missing, everything else works. Host and
// library share only this structure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightpager::control {

inline constexpr uint32_t plugin_version = 4;
inline constexpr char plugin_file[] = "libweightpager-control.so";
inline constexpr char plugin_entry[] = "weightpager_control_serve";

struct PluginHost {
  uint32_t version = plugin_version;
  /// Passed to the functions below. They are called on the serving thread.
  void* context = nullptr;
  /// Where to listen.
  const char* socket_path = nullptr;
  /// Calls `reply` once with the answer to a request.
  void (*answer)(void* context, const char* request, size_t request_bytes,
                 void (*reply)(void* reply_context, const char* answer, size_t answer_bytes),
                 void* reply_context) = nullptr;
  /// Called once, before anything is made at socket_path. false: the process is ending, and nothing
  /// may be made any more.
  bool (*may_open)(void* context) = nullptr;
  /// Called once: with nullptr when the socket listens, or with the reason why it cannot.
  void (*opened)(void* context, const char* why_not) = nullptr;
  /// The port for HTTP (http_pages.h); 0: any free port; -1: no HTTP.
  int http_port = -1;
  /// Serving ends when this descriptor can be read; -1: serving does not end.
  int stop_fd = -1;
  /// Called once if http_port asks for HTTP: with the port and nullptr, or with the reason why HTTP
  /// cannot be served.
  void (*http_opened)(void* context, unsigned port, const char* why_not) = nullptr;
};

/// Serves on the calling thread, which must share its descriptor table with no other thread.
/// Without stop_fd it does not return once it listens.
using PluginEntry = void (*)(const PluginHost* host);

}  // namespace weightpager::control
