// What a process that runs networks has in memory beside windows, activations and what operations
// need: by what it is, as the kernel counts it.
//
// Sizes of the former are chosen, and known before anything runs. What the program, its libraries
// and the code that oneDNN compiles take is nobody's choice, and differs by machine: so it is
// looked up at the end, and said beside what was promised.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weightpager::tools {

struct MemoryBeside {
  /// Pages of the program and its libraries, with their data.
  uint64_t program_bytes = 0;
  /// Code that oneDNN has compiled for the layers.
  uint64_t kernels_bytes = 0;
  /// Threads' stacks, as far as they were used.
  uint64_t stacks_bytes = 0;
  /// The requests and answers that are shared with the kernel.
  uint64_t reader_bytes = 0;
  /// Biases, descriptions of layers and of files, oneDNN's objects, pictures.
  uint64_t heap_bytes = 0;
  /// Pages that count twice in the process's resident memory, and once in a memory cgroup: layers
  /// across a ring's end (MirroredRing).
  uint64_t counted_twice_bytes = 0;
  /// Of the most that there was at once, what is gone by now.
  uint64_t passing_bytes = 0;

  uint64_t all_bytes() const {
    return program_bytes + kernels_bytes + stacks_bytes + reader_bytes + heap_bytes +
           counted_twice_bytes + passing_bytes;
  }
};

/// `known_bytes`: of windows, activations and operations. The text is that of /proc/self/smaps.
MemoryBeside memory_beside(std::string_view smaps, uint64_t known_bytes,
                           uint64_t resident_bytes_max);
/// Of this process, now. All zero where /proc does not tell.
MemoryBeside memory_beside(uint64_t known_bytes);

/// The most that this process had at once.
uint64_t resident_bytes_max();

/// "program 18.3 MiB, …", for people.
std::string describe(const MemoryBeside& beside);
/// Field by field, as in the struct.
void add_fields(nlohmann::ordered_json& json, const MemoryBeside& beside);

}  // namespace weightpager::tools
