// libweightpager-control.so: the control socket's loop, for processes that are not ours.
//
// libuv has a pipe for signals, which nobody here uses. libuv closes the pipe in every child
// process and again at exit, by descriptor numbers that mean the pipe in this thread's descriptor
// table only. In the engine's table the same numbers are the engine's files. So both are prevented:
// libuv's handler for child processes is not registered (libuv alone finds the function below in
// place of libc's), and the clean-up is done here, as soon as the loop exists.
#include "pager/control/plugin.h"

#include <exception>
#include <memory>

#include "pager/control/http_pages.h"
#include "pager/control/line_server.h"

#define WP_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))

WP_PLUGIN_EXPORT int __register_atfork(void (*)(), void (*)(), void (*)(), void*) { return 0; }

namespace weightpager::control {
namespace {

std::string answer_of(const PluginHost& host, std::string_view request) {
  std::string answer;
  host.answer(
      host.context, request.data(), request.size(),
      [](void* to, const char* text, size_t length) {
        static_cast<std::string*>(to)->assign(text, length);
      },
      &answer);
  return answer;
}

/// Returns nullptr if HTTP is not asked for or cannot be served. Everything else works without it.
std::unique_ptr<HttpServer> serve_http(Loop& loop, const PluginHost& host) {
  if (host.http_port < 0) return nullptr;
  auto http = serve_pages(loop, static_cast<uint16_t>(host.http_port),
                          [&host](std::string_view it) { return answer_of(host, it); });
  if (!http) {
    host.http_opened(host.context, 0, http.error().message.c_str());
    return nullptr;
  }
  host.http_opened(host.context, (*http)->port(), nullptr);
  return std::move(*http);
}

}  // namespace
}  // namespace weightpager::control

WP_PLUGIN_EXPORT void weightpager_control_serve(const weightpager::control::PluginHost* host) try {
  using namespace weightpager::control;
  if (host->version != plugin_version)
    return host->opened(host->context, "it is of another version");
  auto loop = Loop::open();
  uv_library_shutdown();
  if (!loop) return host->opened(host->context, loop.error().message.c_str());
  if (!host->may_open(host->context)) return;
  const auto server = LineServer::listen(
      **loop, host->socket_path, [host](std::string_view it) { return answer_of(*host, it); });
  if (!server) return host->opened(host->context, server.error().message.c_str());
  if (host->stop_fd >= 0) {
    const auto watched = (*loop)->stop_when_readable(host->stop_fd);
    if (!watched) return host->opened(host->context, watched.error().message.c_str());
  }
  host->opened(host->context, nullptr);
  const auto http = serve_http(**loop, *host);
  (*loop)->run();
} catch (const std::exception& problem) {
  // Out of memory: the socket answers nobody any more, and the engine runs on.
}
