// What the pager tells about itself: counters in memory that is shared with `weightpager run`.
//
// One `Telemetry` per paged process lies in a file of the run directory ($WEIGHTPAGER_RUN_DIR/
// <pid>.telemetry), mapped by the pager, which alone writes it, and by whoever watches. Being a
// shared mapping, it outlives an engine that is killed. Every field is a plain atomic; a reader
// sees each field whole but not all fields at one instant. Cost: a relaxed add per event.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pager/base/result.h"
#include "pager/telemetry/counter.h"
#include "pager/telemetry/histogram.h"

namespace weightpager::telemetry {

inline constexpr uint32_t telemetry_magic = 0x54505757;  // "WWPT"
inline constexpr uint32_t telemetry_version = 12;

/// The "mapper" of a process whose weights another one pages.
inline constexpr char attached[] = "attached";

/// Times are CLOCK_MONOTONIC nanoseconds.
struct Telemetry {
  uint32_t magic = telemetry_magic;
  uint32_t version = telemetry_version;
  int32_t process_id = 0;
  uint32_t reserved = 0;
  char mapper[16] = {};   // "move", "collapse", "copy"
  char reader[16] = {};   // "io_uring", "pread"
  char profile[64] = {};  // what the engine profile did, "" if it did nothing
  char command[64] = {};  // the process's name

  // By policy::policy_number(), because a number is read whole while another one is stored, and a
  // name is not; 0 is none. Where rows of named_policies() move, telemetry_version is raised.
  Counter policy;         // in use now
  Counter former_policy;  // that it took over from

  // Sizes now and at most.
  Counter window_bytes;        // the memory budget
  Counter chunk_bytes;         // the unit of residency; 0 where another process pages
  Counter resident_bytes;      // window memory that holds chunks now
  Counter resident_bytes_max;  // … and at most
  Counter ring_bytes;          // the part of the window that streams
  Counter pinned_bytes;        // the part of the window that stays
  Counter model_bytes;         // size of the files that are served
  Counter models;              // regions opened so far
  Counter engine_bytes_start;  // the process's memory when the first model was mapped
  Counter engine_bytes_max;    // most memory of the process beside the window, sampled
  // Weights that the engine wrote to: its own memory from then on. Counted as it happens; of shared
  // memory, where the kernel does not tell, when a child process is made.
  Counter written_bytes;
  // Memory of the engine's own that is served (pager/spill).
  Counter spill_written_bytes;  // to the spill file
  Counter spill_read_bytes;     // … and back
  Counter lazy_read_bytes;      // that the engine read from files, to be read when it touches them
  Counter spill_file_bytes;     // that the spill file holds now
  Counter spill_errors;         // writes to the spill file that failed
  Counter spill_found_bytes;    // that had to go, and lay in the folder of --keep-copies already
  Counter spill_kept_bytes;     // that this run keeps there for the next one
  Counter blocks;               // of the engine's that lie in such memory now
  Counter block_bytes;          // … their length
  Counter block_bytes_max;      // … at most
  Counter mapped_file_bytes;    // sizes of the files that the engine mapped

  // What happened, in chunks. Faults by what the chunk was like when the pager took the fault.
  Counter faults_demand;    // touched while absent: the engine waited for a whole read
  Counter faults_late;      // touched while its prefetch was being read: it waited for the rest
  Counter faults_tripwire;  // touched while ready: it waited microseconds
  Counter prefetch_hidden;  // prefetched chunks that were there before the engine came
  Counter prefetch_unused;  // prefetched chunks evicted before the engine came
  Counter evictions;
  // What it takes the pager's thread to show chunks and to take them out of sight, one or several
  // neighbours at once.
  Counter shows;
  Counter shown_chunks;
  Counter show_ns;
  Counter take_outs;
  Counter taken_out_chunks;
  Counter take_out_ns;
  Counter passes;  // sweeps over the layers seen
  // Whose order and pace the policy knew from an earlier run.
  Counter access_profile_chunks;

  // Of a mixture of experts; all 0 without.
  Counter expert_uses;           // an expert that a pass used
  Counter expert_misses;         // … of which some chunks were absent
  Counter expert_missing_bytes;  // … these: the least that had to be read then

  // Other policies beside the one in use (pager/shadow).
  Counter policies_judged;  // verdicts on what was sampled of the engine's touches
  Counter policy_changes;
  Counter policy_changed_ns;  // when it changed last
  Counter former_wait_ns;     // for a touch, on average, of those sampled under the former policy
  Counter wait_ns;            // … and under this one; 0 until it is known

  // What was read.
  Counter read_bytes;
  // … of these from the copies in the first, second and third `--mirror`.
  Counter mirror_1_read_bytes;
  Counter mirror_2_read_bytes;
  Counter mirror_3_read_bytes;
  Counter copies_given_up;  // copies of files, or whole drives, that are not read any more
  Counter read_busy_ns;     // time with at least one read in flight
  Counter read_errors;

  // How long the engine stood still.
  Counter started_ns;     // when the first model was mapped
  Counter last_event_ns;  // the last fault or read
  Counter stall_ns;       // time with at least one engine thread waiting for a chunk
  Counter ended_ns;       // when the process ended in order, 0 if it has not

  Counter cursor_chunk;  // touched last

  // From the pager's taking of a fault to its showing the chunk, by what the chunk was like at
  // first. The time before that is not counted, nor until the toucher has a processor.
  Histogram wait_demand_ns;
  Histogram wait_late_ns;
  Histogram wait_tripwire_ns;
  // From a read's start to its bytes being here.
  Histogram read_latency_ns;
};

/// The bytes that were read from that mirror (from 1 on); nullptr for 0, which is the model itself.
Counter* mirror_read_bytes(Telemetry& telemetry, uint32_t mirror);

/// What a counter is called wherever it is written down. Units last.
struct NamedCounter {
  const char* key;
  Counter Telemetry::*counter;
  /// It only ever grows, from 0.
  bool is_total = false;
  const char* description;
};
/// All but cursor_chunk, which means nothing outside, and the policies, which are names.
std::span<const NamedCounter> named_counters();

struct NamedHistogram {
  const char* key;
  Histogram Telemetry::*histogram;
  const char* description;
};
std::span<const NamedHistogram> named_histograms();

/// Now, on the clock of every time in here. No system call.
uint64_t monotonic_ns();

/// Creates the file `directory`/<pid>.telemetry and maps it; an empty directory name gives private
/// memory that nobody else sees. The mapping lives as long as the process.
Result<Telemetry*> create(const std::string& directory);

/// Maps an existing file read-only, checking magic, version and size. Caller unmaps with `close`.
Result<const Telemetry*> open(const std::string& path);
void close(const Telemetry* telemetry);

}  // namespace weightpager::telemetry
