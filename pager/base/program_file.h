// Whether a library of LD_PRELOAD's gets into a program: what the program's file says.
//
// The dynamic loader loads such libraries, so a program that has no loader, or the loader of
// another machine or of another C library, gets none. The file's first bytes say which loader that
// is; a script's say which program reads the script.
//
// Makes system calls only, and allocates nothing: it may be asked between vfork and exec. Cost: two
// or three small reads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightpager {

enum class Preloading : uint8_t {
  works,          // or the file tells nothing
  static_linked,  // there is no loader
  narrow,         // 32 bit
  other_machine,
  other_c_library,  // its loader cannot load what was linked with glibc
};

struct ProgramFile {
  static constexpr size_t text_bytes = 256;  // the kernel takes no longer first line of a script

  Preloading preloading = Preloading::works;
  /// Go's programs call the kernel themselves, past every library.
  bool is_go = false;
  /// Of a script: the program that reads it, and the rest of the first line. "" of a program.
  char interpreter[text_bytes] = {};
  char argument[text_bytes] = {};
  /// Of a dynamically linked program: its loader.
  char loader[text_bytes] = {};

  bool is_script() const { return interpreter[0] != '\0'; }
};

/// The file itself: nothing is said of a script but who reads it.
ProgramFile look_at_program(const char* path);

/// The program that runs when the file is executed: of a script, whoever reads it, with
/// `interpreter` and `argument` as of the last script on the way.
ProgramFile program_behind(const char* path);

}  // namespace weightpager
