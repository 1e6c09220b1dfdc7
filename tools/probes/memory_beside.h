// The memory of a process that runs networks, beside windows, activations and the operations'
// scratch memory: by kind, as the kernel counts it.
//
// The sizes of windows, activations and operations are chosen, and known before anything runs. The
// memory of the program, its libraries and the code that oneDNN compiles is not chosen, and differs
// between machines. So it is looked up at the end, and shown beside the sizes that were chosen.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weightpager::tools {

struct MemoryBeside {
  /// The program and its libraries, with their data.
  uint64_t program_bytes = 0;
  /// Code that oneDNN has compiled for the layers.
  uint64_t kernels_bytes = 0;
  /// The used parts of the threads' stacks.
  uint64_t stacks_bytes = 0;
  /// The reader's queues of requests and answers, which are shared with the kernel.
  uint64_t reader_bytes = 0;
  /// Biases, descriptions of layers and of files, oneDNN's objects, pictures.
  uint64_t heap_bytes = 0;
  /// Pages that count twice in the process's resident memory, but once in a memory cgroup: those of
  /// layers across a ring's end (MirroredRing).
  uint64_t counted_twice_bytes = 0;
  /// The part of the peak that is no longer in memory.
  uint64_t passing_bytes = 0;

  uint64_t all_bytes() const {
    return program_bytes + kernels_bytes + stacks_bytes + reader_bytes + heap_bytes +
           counted_twice_bytes + passing_bytes;
  }
};

/// `smaps`: the text of /proc/self/smaps. `known_bytes`: those of windows, activations and
/// operations.
MemoryBeside memory_beside(std::string_view smaps, uint64_t known_bytes,
                           uint64_t resident_bytes_max);
/// The same for this process, now. All zero if /proc does not tell.
MemoryBeside memory_beside(uint64_t known_bytes);

/// The peak of this process's resident memory.
uint64_t resident_bytes_max();

/// "program 18.3 MiB, …", for people.
std::string describe(const MemoryBeside& beside);
/// Adds the fields under the names that they have in the struct.
void add_fields(nlohmann::ordered_json& json, const MemoryBeside& beside);

}  // namespace weightpager::tools
