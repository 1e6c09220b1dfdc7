// The calls by which a process opens files, starts programs and ends. They call the next library's
// function of the same name, and tell the witness.
//
// The next functions are looked up when the interposer is loaded, because a child between fork and
// exec must not look them up. A file that is opened earlier, for example by an allocator that reads
// its settings, is opened by the system call.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "pager/preload/spilled_memory.h"
#include "pager/preload/witness.h"

#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

namespace preload = weightpager::preload;
using preload::Start;

extern char** environ;

// Programs that are compiled with _FORTIFY_SOURCE call these.
WP_INTERPOSE int __open_2(const char* path, int flags);
WP_INTERPOSE int __open64_2(const char* path, int flags);
WP_INTERPOSE int __openat_2(int folder, const char* path, int flags);
WP_INTERPOSE int __openat64_2(int folder, const char* path, int flags);

namespace {

#define WP_ANSWERED(each)                                                                         \
  each(open) each(open64) each(openat) each(openat64) each(__open_2) each(__open64_2)             \
      each(__openat_2) each(__openat64_2) each(fopen) each(fopen64) each(freopen) each(freopen64) \
          each(creat) each(creat64) each(truncate) each(truncate64) each(execve) each(execv)      \
              each(execvp) each(execvpe) each(posix_spawn) each(posix_spawnp) each(_exit)         \
                  each(_Exit)

#define WP_MEMBER(name) decltype(&::name) name##_ = nullptr;
struct NextFunctions {
  WP_ANSWERED(WP_MEMBER)
};
NextFunctions next_functions;

template <typename Function>
Function look_up(Function& function, const char* name) {
  if (function == nullptr) function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  return function;
}
#define WP_NEXT(name) look_up(next_functions.name##_, #name)

__attribute__((constructor(101))) void look_up_all() {
#define WP_LOOK_UP(name) WP_NEXT(name);
  WP_ANSWERED(WP_LOOK_UP)
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

int tell_opened(int fd, int flags, int folder, const char* path) {
  if (fd < 0 || !preload::is_active()) return fd;
  preload::note_opened_by_name(fd, folder, path);
  preload::note_opened(fd, flags);
  return fd;
}

bool is_to_be_written(int flags) {
  return (flags & O_PATH) == 0 && ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0);
}

template <typename Function, typename... Arguments>
int open_by(Function function, int folder, const char* path, int flags, mode_t mode,
            Arguments... arguments) {
  if (is_to_be_written(flags)) preload::keep_lazily_read(folder, path);
  const int fd = function != nullptr
                     ? function(arguments...)
                     : static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  return tell_opened(fd, flags, folder, path);
}

void tell_opening(const char* path, const char* mode) {
  if (mode[0] != 'r' || std::strchr(mode, '+') != nullptr)
    preload::keep_lazily_read(AT_FDCWD, path);
}

FILE* tell_opened(FILE* stream, const char* path, const char* mode) {
  if (stream != nullptr && path != nullptr && mode[0] == 'r')
    tell_opened(fileno(stream), O_RDONLY, AT_FDCWD, path);
  return stream;
}

void note_end() {
  if (preload::is_active()) preload::note_end();
}

}  // namespace

// The last argument exists only if the flags ask for it.
#define WP_MODE_OF(flags)                               \
  mode_t mode = 0;                                      \
  if (takes_mode(flags)) {                              \
    va_list rest;                                       \
    va_start(rest, flags);                              \
    mode = static_cast<mode_t>(va_arg(rest, unsigned)); \
    va_end(rest);                                       \
  }

WP_INTERPOSE int open(const char* path, int flags, ...) {
  WP_MODE_OF(flags)
  return open_by(next_functions.open_, AT_FDCWD, path, flags, mode, path, flags, mode);
}

WP_INTERPOSE int open64(const char* path, int flags, ...) {
  WP_MODE_OF(flags)
  return open_by(next_functions.open64_, AT_FDCWD, path, flags, mode, path, flags, mode);
}

WP_INTERPOSE int openat(int folder, const char* path, int flags, ...) {
  WP_MODE_OF(flags)
  return open_by(next_functions.openat_, folder, path, flags, mode, folder, path, flags, mode);
}

WP_INTERPOSE int openat64(int folder, const char* path, int flags, ...) {
  WP_MODE_OF(flags)
  return open_by(next_functions.openat64_, folder, path, flags, mode, folder, path, flags, mode);
}

WP_INTERPOSE int __open_2(const char* path, int flags) {
  return open_by(next_functions.__open_2_, AT_FDCWD, path, flags, 0, path, flags);
}

WP_INTERPOSE int __open64_2(const char* path, int flags) {
  return open_by(next_functions.__open64_2_, AT_FDCWD, path, flags, 0, path, flags);
}

WP_INTERPOSE int __openat_2(int folder, const char* path, int flags) {
  return open_by(next_functions.__openat_2_, folder, path, flags, 0, folder, path, flags);
}

WP_INTERPOSE int __openat64_2(int folder, const char* path, int flags) {
  return open_by(next_functions.__openat64_2_, folder, path, flags, 0, folder, path, flags);
}

WP_INTERPOSE FILE* fopen(const char* path, const char* mode) {
  tell_opening(path, mode);
  return tell_opened(WP_NEXT(fopen)(path, mode), path, mode);
}

WP_INTERPOSE FILE* fopen64(const char* path, const char* mode) {
  tell_opening(path, mode);
  return tell_opened(WP_NEXT(fopen64)(path, mode), path, mode);
}

WP_INTERPOSE FILE* freopen(const char* path, const char* mode, FILE* stream) {
  tell_opening(path, mode);
  return tell_opened(WP_NEXT(freopen)(path, mode, stream), path, mode);
}

WP_INTERPOSE FILE* freopen64(const char* path, const char* mode, FILE* stream) {
  tell_opening(path, mode);
  return tell_opened(WP_NEXT(freopen64)(path, mode, stream), path, mode);
}

WP_INTERPOSE int creat(const char* path, mode_t mode) {
  preload::keep_lazily_read(AT_FDCWD, path);
  return WP_NEXT(creat)(path, mode);
}

WP_INTERPOSE int creat64(const char* path, mode_t mode) {
  preload::keep_lazily_read(AT_FDCWD, path);
  return WP_NEXT(creat64)(path, mode);
}

WP_INTERPOSE int truncate(const char* path, off_t length) noexcept {
  preload::keep_lazily_read(AT_FDCWD, path);
  return WP_NEXT(truncate)(path, length);
}

WP_INTERPOSE int truncate64(const char* path, off64_t length) noexcept {
  preload::keep_lazily_read(AT_FDCWD, path);
  return WP_NEXT(truncate64)(path, length);
}

WP_INTERPOSE int execve(const char* path, char* const* arguments,
                        char* const* environment) noexcept {
  preload::note_start(Start::in_its_place, path, false, arguments, environment);
  return WP_NEXT(execve)(path, arguments, environment);
}

WP_INTERPOSE int execv(const char* path, char* const* arguments) noexcept {
  preload::note_start(Start::in_its_place, path, false, arguments, environ);
  return WP_NEXT(execv)(path, arguments);
}

WP_INTERPOSE int execvp(const char* name, char* const* arguments) noexcept {
  preload::note_start(Start::in_its_place, name, true, arguments, environ);
  return WP_NEXT(execvp)(name, arguments);
}

WP_INTERPOSE int execvpe(const char* name, char* const* arguments,
                         char* const* environment) noexcept {
  preload::note_start(Start::in_its_place, name, true, arguments, environment);
  return WP_NEXT(execvpe)(name, arguments, environment);
}

WP_INTERPOSE int posix_spawn(pid_t* process_id, const char* path,
                             const posix_spawn_file_actions_t* actions,
                             const posix_spawnattr_t* attributes, char* const* arguments,
                             char* const* environment) {
  preload::note_start(Start::beside_it, path, false, arguments, environment);
  return WP_NEXT(posix_spawn)(process_id, path, actions, attributes, arguments, environment);
}

WP_INTERPOSE int posix_spawnp(pid_t* process_id, const char* name,
                              const posix_spawn_file_actions_t* actions,
                              const posix_spawnattr_t* attributes, char* const* arguments,
                              char* const* environment) {
  preload::note_start(Start::beside_it, name, true, arguments, environment);
  return WP_NEXT(posix_spawnp)(process_id, name, actions, attributes, arguments, environment);
}

WP_INTERPOSE void _exit(int status) {
  note_end();
  WP_NEXT(_exit)(status);
  __builtin_unreachable();
}

WP_INTERPOSE void _Exit(int status) noexcept {
  note_end();
  WP_NEXT(_Exit)(status);
  __builtin_unreachable();
}
