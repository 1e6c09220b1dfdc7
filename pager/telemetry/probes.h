// Where tracers look on: static probes (USDT) of the provider "weightpager", for bpftrace, perf and
// SystemTap. docs/reference/probes.md lists them with their arguments.
//
// Each is one nop and a note in the ELF file that says where its arguments lie; a tracer puts a
// breakpoint there. So arguments are values that are at hand anyway. Without sys/sdt.h
// (systemtap-sdt-dev) there are none.
#pragma once

#include <cstdint>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#else
#define DTRACE_PROBE1(...)
#define DTRACE_PROBE2(...)
#define DTRACE_PROBE4(...)
#endif

namespace weightpager::telemetry::probes {

/// A thread stands still at `address`, in a chunk of that state (0 absent, 1 reading, 2 ready,
/// 3 mapped elsewhere).
inline void fault([[maybe_unused]] uint32_t chunk, [[maybe_unused]] uint32_t state,
                  [[maybe_unused]] uintptr_t address, [[maybe_unused]] uint32_t waiting_chunks) {
  DTRACE_PROBE4(weightpager, fault, chunk, state, address, waiting_chunks);
}

/// The threads that stood still at the chunk run on; `waiting_chunks` others are waited for.
inline void served([[maybe_unused]] uint32_t chunk, [[maybe_unused]] uint32_t waiting_chunks) {
  DTRACE_PROBE2(weightpager, served, chunk, waiting_chunks);
}

/// A read of `count` chunks from the file's `offset_bytes` on begins.
inline void read_begin([[maybe_unused]] uint32_t chunk, [[maybe_unused]] uint32_t count,
                       [[maybe_unused]] uint64_t offset_bytes,
                       [[maybe_unused]] uint64_t length_bytes) {
  DTRACE_PROBE4(weightpager, read_begin, chunk, count, offset_bytes, length_bytes);
}

/// It has ended: so much came, and errno is that, 0 if all went well.
inline void read_end([[maybe_unused]] uint32_t chunk, [[maybe_unused]] uint32_t count,
                     [[maybe_unused]] uint64_t length_bytes, [[maybe_unused]] int error_number) {
  DTRACE_PROBE4(weightpager, read_end, chunk, count, length_bytes, error_number);
}

/// The engine can use them from now on without the pager …
inline void map([[maybe_unused]] uint32_t chunk, [[maybe_unused]] uint32_t count) {
  DTRACE_PROBE2(weightpager, map, chunk, count);
}

/// … and of this one no longer.
inline void evict([[maybe_unused]] uint32_t chunk) { DTRACE_PROBE1(weightpager, evict, chunk); }

}  // namespace weightpager::telemetry::probes
