// The weightpager command, and the last line against what nobody foresaw.
//
// Commands look for room before they take memory (pager/base/memory_room.h), and what can fail
// returns an error. What is left is an allocation that fails all the same (`ulimit -v`), or a
// thread that the system refuses: also these end in words and a status, not by a signal. In this
// thread everything that is open is closed on the way; in another one the process ends at once.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>

#include "tools/cli/cli.h"
#include "tools/commands/commands.h"

namespace {

using namespace weightpager::tools;

/// With the little that may be left: allocates nothing.
int out_of_memory() {
  std::fputs(
      "weightpager: error: out of memory\n"
      "hint: raise `ulimit -v` and `ulimit -d`, or the memory cgroup's limit; or give smaller "
      "sizes\n",
      stderr);
  return exit_failure;
}

int tell(const std::exception_ptr& problem) {
  try {
    std::rethrow_exception(problem);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& it) {
    std::fprintf(stderr, "weightpager: error: %s\n", it.what());
    std::fputs("hint: is `ulimit -u` or `ulimit -v` very low? Otherwise this is a defect\n",
               stderr);
    return exit_failure;
  }
}

[[noreturn]] void end_at_once() {
  const std::exception_ptr problem = std::current_exception();
  if (problem == nullptr) std::abort();
  const int status = tell(problem);
  std::fflush(stderr);
  _exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_at_once);
  try {
    return weightpager_command({argv + (argc > 0), argv + argc});
  } catch (...) {
    return tell(std::current_exception());
  }
}
