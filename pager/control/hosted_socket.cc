#include "pager/control/hosted_socket.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <exception>

#include "pager/base/log.h"
#include "pager/base/own_limits.h"
#include "pager/base/result.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/control/page_notice.h"
#include "pager/control/plugin.h"
#include "pager/control/runtime_directory.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

namespace weightpager::control {
namespace {

constexpr unsigned first_own_descriptor = 3;
constexpr int waits_max = 10'000;
constexpr useconds_t wait_us = 100;

void tell(const std::string& why) {
  notice("no control socket: " + why +
         "; `weightpager stat` and its like will not find this process");
}

/// The plugin lies beside the library that this code is part of, or where the plugin is installed.
std::string plugin_path() {
  Dl_info facts{};
  if (dladdr(reinterpret_cast<const void*>(&plugin_path), &facts) == 0) return "";
  const std::string own = facts.dli_fname;
  const std::string directory = own.substr(0, own.rfind('/') + 1);
  for (const char* const place : {"", "weightpager/", "../weightpager/"}) {
    const std::string path = directory + place + plugin_file;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return directory + plugin_file;
}

/// Gives this thread a descriptor table of its own; of the process's descriptors only `kept` stays
/// open in it.
bool take_own_descriptors(int kept) {
  const auto close_others = [](unsigned first, unsigned last, unsigned flags) {
    return first > last || syscall(SYS_close_range, first, last, flags) == 0;
  };
  const unsigned end = kept < 0 ? first_own_descriptor : static_cast<unsigned>(kept) + 1;
  if (!close_others(end, UINT_MAX, CLOSE_RANGE_UNSHARE)) return unshare(CLONE_FILES) == 0;
  return kept < 0 || close_others(first_own_descriptor, end - 2, 0);
}

void http_is_opened(void*, unsigned port, const char* why_not) {
  why_not == nullptr ? tell_of_page(port) : tell_of_no_page(why_not);
}

bool has_sanitizer() { return dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace") != nullptr; }

bool has_other_libuv() {
  void* const found = dlsym(RTLD_DEFAULT, "uv_run");
  Dl_info facts{};
  return found != nullptr && dladdr(found, &facts) != 0 &&
         std::strstr(facts.dli_fname, "libuv.so.1") == nullptr;
}

Result<PluginEntry> load_plugin() {
  int flags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
  if (has_sanitizer()) {
    // A sanitizer's runtime ends a process in which libraries put their own symbols first. (Without
    // this flag child processes get a pipe of libuv's, which nobody reads.)
    flags &= ~RTLD_DEEPBIND;
    if (has_other_libuv())
      return fail("a sanitizer's runtime and another libuv are in the process");
  }
  void* const plugin = dlopen(plugin_path().c_str(), flags);
  if (plugin == nullptr) return fail(dlerror(), "install libuv1");
  void* const entry = dlsym(plugin, plugin_entry);
  if (entry == nullptr) return fail(dlerror(), "install weightpager again");
  return reinterpret_cast<PluginEntry>(entry);
}

}  // namespace

std::unique_ptr<HostedSocket> HostedSocket::open(Options options) {
  const auto refuse = [](const std::string& why) {
    tell(why);
    return nullptr;
  };
  // Every thread that allocates takes 64 MiB of the address space, which an engine may need.
  if (is_limited(RLIMIT_AS)) return refuse("address space is limited (ulimit -v)");
  const auto path = own_socket_path();
  if (!path) return refuse(path.error().message);
  std::unique_ptr<HostedSocket> it(new HostedSocket(std::move(options), *path));
  if (it->options_.can_be_closed) {
    it->stop_ = OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!it->stop_.is_open()) return refuse("no descriptor is free");
  }
  auto thread = start_thread("wp-control", [it = it.get()] { it->serve(); });
  if (!thread) return refuse(thread.error().message);
  it->thread_ = std::move(*thread);
  if (!it->options_.can_be_closed) it->thread_.detach();
  return it;
}

HostedSocket::~HostedSocket() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void HostedSocket::await_opened() const {
  const auto is_opened = [this] {
    const State state = state_.load();
    return state == State::served || state == State::ended;
  };
  for (int i = 0; i < waits_max && !is_opened(); ++i) usleep(wait_us);
}

void HostedSocket::remove_path() {
  State before = State::loading;
  if (state_.compare_exchange_strong(before, State::ended)) return;
  await_opened();
  if (state_.load() == State::served) unlink(path_.c_str());
}

void HostedSocket::give_up(const std::string& why) {
  tell(why);
  state_.store(State::ended);
}

void HostedSocket::serve() try {
  if (!take_own_descriptors(stop_.is_open() ? stop_.get() : -1)) {
    return give_up("unshare(CLONE_FILES) is refused here");
  }
  const auto entry = load_plugin();
  if (!entry) return give_up(entry.error().message);
  const PluginHost host = {
      .context = this,
      .socket_path = path_.c_str(),
      .answer =
          [](void* context, const char* request, size_t request_bytes,
             void (*reply)(void*, const char*, size_t), void* reply_context) {
            try {
              const std::string line =
                  static_cast<HostedSocket*>(context)->options_.answer({request, request_bytes});
              reply(reply_context, line.data(), line.size());
            } catch (const std::exception&) {
              constexpr char line[] =
                  R"({"version":1,"ok":false,"error":"the process is out of memory"})";
              reply(reply_context, line, sizeof line - 1);
            }
          },
      .may_open =
          [](void* context) {
            State before = State::loading;
            return static_cast<HostedSocket*>(context)->state_.compare_exchange_strong(
                before, State::opening);
          },
      .opened =
          [](void* context, const char* why_not) {
            auto* const it = static_cast<HostedSocket*>(context);
            why_not == nullptr ? it->state_.store(State::served) : it->give_up(why_not);
            // Not earlier: an exiting process waits for the socket to be opened.
            take_least_priority();
          },
      .http_port = options_.http_port,
      .stop_fd = stop_.is_open() ? stop_.get() : -1,
      .http_opened = http_is_opened};
  (*entry)(&host);
  state_.store(State::ended);
} catch (const std::exception&) {
  state_.store(State::ended);
}

}  // namespace weightpager::control
