// The thread that serves the socket has descriptors of its own, like the pager's, so that an engine
// that closes all descriptors does not close these. It loads its library itself: the thread that
// maps a model would do so under a lock that another one, which is loading a library that maps a
// model, waits for.
#include "pager/preload/control.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "pager/base/log.h"
#include "pager/base/thread.h"
#include "pager/control/pager_answers.h"
#include "pager/control/plugin.h"
#include "pager/control/runtime_directory.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

namespace weightpager::preload {
namespace {

constexpr unsigned first_own_descriptor = 3;
constexpr int loading_waits_max = 10'000;
constexpr useconds_t loading_wait_us = 100;

enum class State { none, loading, served };
std::atomic<State> state{State::none};
// Of the socket, once it is there; for whoever removes it at exit.
std::string* socket_path = nullptr;

void tell(const std::string& why) {
  notice("no control socket: " + why +
         "; `weightpager stat` and its like will not find this process");
}

/// Beside the interposer.
std::string plugin_path() {
  Dl_info facts{};
  if (dladdr(reinterpret_cast<const void*>(&plugin_path), &facts) == 0) return "";
  const std::string own = facts.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + control::plugin_file;
}

/// Nothing of the engine's is kept open by it.
bool take_own_descriptors() {
  if (syscall(SYS_close_range, first_own_descriptor, UINT_MAX, CLOSE_RANGE_UNSHARE) == 0) {
    return true;
  }
  return unshare(CLONE_FILES) == 0;
}

void answer(void* context, const char* request, size_t request_bytes,
            void (*reply)(void*, const char*, size_t), void* reply_context) try {
  const std::string line =
      static_cast<control::PagerAnswers*>(context)->answer({request, request_bytes});
  reply(reply_context, line.data(), line.size());
} catch (const std::exception&) {
  constexpr char line[] = R"({"version":1,"ok":false,"error":"the process is out of memory"})";
  reply(reply_context, line, sizeof line - 1);
}

void is_opened(void*, const char* why_not) {
  if (why_not == nullptr) return state.store(State::served);
  tell(why_not);
  state.store(State::none);
}

void http_is_opened(void*, unsigned port, const char* why_not) {
  if (why_not == nullptr) {
    return notice("live page and /metrics at http://127.0.0.1:" + std::to_string(port) + "/");
  }
  notice(std::string("no live page: ") + why_not);
}

/// A port, or -1 for none.
int http_port() {
  const char* const text = std::getenv("WEIGHTPAGER_HTTP");
  return text == nullptr || *text == 0 ? -1 : static_cast<int>(std::strtol(text, nullptr, 10));
}

Result<control::PluginEntry> load_plugin() {
  // With a sanitizer the runtime of which is everywhere, libraries cannot have symbols first.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int flags = RTLD_NOW | RTLD_LOCAL;
#else
  constexpr int flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
  void* const plugin = dlopen(plugin_path().c_str(), flags);
  if (plugin == nullptr) return fail(dlerror(), "install libuv1");
  void* const entry = dlsym(plugin, control::plugin_entry);
  if (entry == nullptr) return fail(dlerror(), "install weightpager again");
  return reinterpret_cast<control::PluginEntry>(entry);
}

void serve(Pager& pager, const telemetry::Telemetry& telemetry) try {
  take_least_priority();
  const auto give_up = [](const std::string& why) {
    tell(why);
    state.store(State::none);
  };
  if (!take_own_descriptors()) return give_up("unshare(CLONE_FILES) is refused here");
  const auto entry = load_plugin();
  if (!entry) return give_up(entry.error().message);
  control::PagerAnswers answers(pager, telemetry);
  const control::PluginHost host = {.context = &answers,
                                    .socket_path = socket_path->c_str(),
                                    .answer = answer,
                                    .opened = is_opened,
                                    .http_port = http_port(),
                                    .http_opened = http_is_opened};
  (*entry)(&host);
} catch (const std::exception&) {
  state.store(State::none);
}

/// Every thread that allocates takes 64 MiB of it, and an engine may need what is left.
bool is_address_space_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

void open_control_socket(Pager& pager, const telemetry::Telemetry& telemetry) {
  if (is_address_space_limited()) return tell("address space is limited (ulimit -v)");
  const auto directory = control::runtime_directory();
  if (!directory) return tell(directory.error().message);
  // Never freed: the thread, and whoever removes the socket, may need it until the very end.
  socket_path = new std::string(*directory + "/" + std::to_string(getpid()) + ".sock");
  state.store(State::loading);
  auto thread = start_thread("wp-control", [&pager, &telemetry] { serve(pager, telemetry); });
  if (thread) return thread->detach();
  state.store(State::none);
  tell(thread.error().message);
}

void remove_control_socket() {
  if (state.load() == State::served) unlink(socket_path->c_str());
}

void before_fork_of_control_socket() {
  for (int i = 0; i < loading_waits_max && state.load() == State::loading; ++i) {
    usleep(loading_wait_us);
  }
}

void forget_control_socket() { state.store(State::none); }

}  // namespace weightpager::preload
