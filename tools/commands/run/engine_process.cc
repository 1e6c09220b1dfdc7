// There are no signal handlers. The signals of interest are blocked, and one loop takes them from
// the kernel, which says who sent them. So a ^C can be told from a `kill`: the terminal sends ^C to
// the whole process group, so the engine has had it already; a `kill` reached only weightpager.
#include "tools/commands/run/engine_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace weightpager::tools {
namespace {

constexpr int exit_cannot_start = 127;  // nobody sees it: weightpager reads the errno

constexpr int handed_on[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGINT, SIGQUIT, SIGTSTP};

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  return set;
}

sigset_t watched_signals() {
  sigset_t set = set_of({SIGCHLD});
  for (int signal : handed_on) sigaddset(&set, signal);
  return set;
}

bool engine_has_had(const siginfo_t& signal) {
  const bool from_terminal = signal.si_code > 0;  // SI_KERNEL; what processes send is ≤ 0
  const bool is_key =
      signal.si_signo == SIGINT || signal.si_signo == SIGQUIT || signal.si_signo == SIGTSTP;
  return from_terminal && is_key;
}

/// Stops this process as if SIGTSTP were not blocked, until somebody continues it.
void stop_here() {
  const sigset_t stop = set_of({SIGTSTP});
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
}

void hand_on(const siginfo_t& signal, pid_t engine) {
  if (!engine_has_had(signal)) kill(engine, signal.si_signo);
  if (signal.si_signo != SIGTSTP) return;
  stop_here();
  kill(engine, SIGCONT);  // if only weightpager was continued, the engine is to go on as well
}

EngineExit wait_for(pid_t engine) {
  const sigset_t watched = watched_signals();
  int status = 0;
  while (waitpid(engine, &status, WNOHANG) == 0) {
    siginfo_t signal = {};
    const bool taken = sigwaitinfo(&watched, &signal) > 0;
    if (taken && signal.si_signo != SIGCHLD) hand_on(signal, engine);
  }
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

[[noreturn]] void become_engine(const std::string& path, const std::vector<std::string>& arguments,
                                const Environment& environment, int error_pipe) {
  for (const auto& [name, value] : environment) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(path.c_str(), argv.data());
  const int error_number = errno;
  [[maybe_unused]] const ssize_t written = ::write(error_pipe, &error_number, sizeof(error_number));
  _exit(exit_cannot_start);
}

/// The errno of an exec that failed; 0 if exec succeeded, which closes the pipe.
int exec_error(int error_pipe) {
  int error_number = 0;
  const ssize_t got = read(error_pipe, &error_number, sizeof(error_number));
  return got == sizeof(error_number) ? error_number : 0;
}

tl::unexpected<Error> cannot_start(const std::string& path, int error_number) {
  return fail(fmt::format("{}: cannot be started: {}", path, strerror(error_number)), {},
              error_number);
}

}  // namespace

Result<EngineExit> run_engine(const std::string& path, const std::vector<std::string>& arguments,
                              const Environment& environment) {
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return cannot_start(path, errno);
  signal(SIGCHLD,
         SIG_DFL);  // some parents leave it ignored; then there would be no exit status
  const sigset_t watched = watched_signals();
  sigset_t inherited;
  sigprocmask(SIG_BLOCK, &watched, &inherited);

  const pid_t engine = fork();
  const int fork_error = errno;
  if (engine == 0) {
    sigprocmask(SIG_SETMASK, &inherited, nullptr);
    become_engine(path, arguments, environment, error_pipe[1]);
  }
  close(error_pipe[1]);
  const int start_error = engine < 0 ? fork_error : exec_error(error_pipe[0]);
  close(error_pipe[0]);
  if (engine > 0 && start_error != 0) waitpid(engine, nullptr, 0);
  if (start_error != 0) return cannot_start(path, start_error);

  signal(SIGPIPE, SIG_IGN);  // a closed stderr must not change how weightpager ends
  return wait_for(engine);
}

void end_like(const EngineExit& engine) {
  fflush(nullptr);
  if (engine.signal == 0) _exit(engine.status);
  prctl(PR_SET_DUMPABLE, 0);  // only the engine's core is of use
  signal(engine.signal, SIG_DFL);
  const sigset_t last = set_of({engine.signal});
  sigprocmask(SIG_UNBLOCK, &last, nullptr);
  raise(engine.signal);
  _exit(128 + engine.signal);
}

}  // namespace weightpager::tools
