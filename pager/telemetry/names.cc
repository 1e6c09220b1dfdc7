// What each counter and histogram is called, in the order in which reports have them.
#include <array>

#include "pager/telemetry/telemetry.h"

namespace weightpager::telemetry {
namespace {

constexpr bool total = true;
constexpr bool gauge = false;

constexpr std::array<NamedCounter, 55> counters{{
    {"window_bytes", &Telemetry::window_bytes, gauge, "the memory budget"},
    {"chunk_bytes", &Telemetry::chunk_bytes, gauge, "the unit of residency"},
    {"resident_bytes", &Telemetry::resident_bytes, gauge, "window memory that holds chunks"},
    {"resident_bytes_max", &Telemetry::resident_bytes_max, gauge, "the most of it so far"},
    {"ring_bytes", &Telemetry::ring_bytes, gauge, "the part of the window that streams"},
    {"pinned_bytes", &Telemetry::pinned_bytes, gauge, "the part of the window that stays"},
    {"model_bytes", &Telemetry::model_bytes, gauge, "of the files that are served"},
    {"models", &Telemetry::models, total, "files opened"},
    {"engine_bytes_start", &Telemetry::engine_bytes_start, gauge,
     "the process's memory when the first model was mapped"},
    {"engine_bytes_max", &Telemetry::engine_bytes_max, gauge,
     "the most memory of the process beside the window"},
    {"written_bytes", &Telemetry::written_bytes, gauge, "weights that the engine wrote to"},
    {"spill_written_bytes", &Telemetry::spill_written_bytes, total,
     "memory of the engine's own written to the spill file"},
    {"spill_read_bytes", &Telemetry::spill_read_bytes, total, "… and read back"},
    {"lazy_read_bytes", &Telemetry::lazy_read_bytes, total,
     "bytes of files that the engine read, to be read when they are touched"},
    {"spill_file_bytes", &Telemetry::spill_file_bytes, gauge, "what the spill file holds"},
    {"spill_errors", &Telemetry::spill_errors, total, "writes to the spill file that failed"},
    {"spill_found_bytes", &Telemetry::spill_found_bytes, total,
     "memory of the engine's own that was not written because an earlier run has kept it"},
    {"spill_kept_bytes", &Telemetry::spill_kept_bytes, gauge,
     "memory of the engine's own that this run keeps for the next"},
    {"large_blocks", &Telemetry::blocks, gauge, "large blocks of the engine's own that are served"},
    {"large_block_bytes", &Telemetry::block_bytes, gauge, "their length"},
    {"large_block_bytes_max", &Telemetry::block_bytes_max, gauge, "the most of it so far"},
    {"mapped_file_bytes", &Telemetry::mapped_file_bytes, total, "sizes of the files mapped"},
    {"faults_demand", &Telemetry::faults_demand, total, "touches that waited for a whole read"},
    {"faults_late", &Telemetry::faults_late, total, "touches that waited for the rest of a read"},
    {"faults_tripwire", &Telemetry::faults_tripwire, total, "touches that waited microseconds"},
    {"prefetch_hidden", &Telemetry::prefetch_hidden, total,
     "chunks that were there before the engine came"},
    {"prefetch_unused", &Telemetry::prefetch_unused, total,
     "chunks read ahead and evicted before the engine came"},
    {"evictions", &Telemetry::evictions, total, "chunks evicted"},
    {"shows", &Telemetry::shows, total, "calls that showed one chunk or several neighbours"},
    {"shown_chunks", &Telemetry::shown_chunks, total, "chunks shown to the engine"},
    {"show_ns", &Telemetry::show_ns, total, "the pager's time for that"},
    {"take_outs", &Telemetry::take_outs, total,
     "calls that took out one chunk or several neighbours"},
    {"taken_out_chunks", &Telemetry::taken_out_chunks, total,
     "chunks evicted that were shown, or taken out of sight"},
    {"take_out_ns", &Telemetry::take_out_ns, total, "the pager's time for that"},
    {"passes", &Telemetry::passes, total, "sweeps over the layers"},
    {"access_profile_chunks", &Telemetry::access_profile_chunks, gauge,
     "chunks whose order and pace an earlier run's access profile gave"},
    {"expert_uses", &Telemetry::expert_uses, total, "experts that passes used"},
    {"expert_misses", &Telemetry::expert_misses, total, "of these, not all in the window"},
    {"expert_missing_bytes", &Telemetry::expert_missing_bytes, total, "what was missing of them"},
    {"read_bytes", &Telemetry::read_bytes, total, "bytes read from model files"},
    {"mirror_1_read_bytes", &Telemetry::mirror_1_read_bytes, total,
     "of these from the first --mirror"},
    {"mirror_2_read_bytes", &Telemetry::mirror_2_read_bytes, total, "… from the second"},
    {"mirror_3_read_bytes", &Telemetry::mirror_3_read_bytes, total, "… from the third"},
    {"copies_given_up", &Telemetry::copies_given_up, total,
     "copies of files, or whole drives, that are not read any more"},
    {"read_busy_ns", &Telemetry::read_busy_ns, total, "time with a read in flight"},
    {"read_errors", &Telemetry::read_errors, total, "chunks that could not be read"},
    {"policies_judged", &Telemetry::policies_judged, total, "comparisons with other policies"},
    {"policy_changes", &Telemetry::policy_changes, total, "policies that took over"},
    {"policy_changed_ns", &Telemetry::policy_changed_ns, gauge, "when the last one did"},
    {"former_wait_ns", &Telemetry::former_wait_ns, gauge,
     "for a touch on average, under the former policy"},
    {"wait_ns", &Telemetry::wait_ns, gauge, "for a touch on average, under this one"},
    {"started_ns", &Telemetry::started_ns, gauge, "when the first model was mapped"},
    {"last_event_ns", &Telemetry::last_event_ns, gauge, "the last fault or read"},
    {"stall_ns", &Telemetry::stall_ns, total, "time with an engine thread waiting for a chunk"},
    {"ended_ns", &Telemetry::ended_ns, gauge, "when the process ended, 0 if it has not"},
}};

constexpr std::array<NamedHistogram, 4> histograms{{
    {"wait_demand_ns", &Telemetry::wait_demand_ns, "fault taken to chunk shown, of absent chunks"},
    {"wait_late_ns", &Telemetry::wait_late_ns, "fault taken to chunk shown, of chunks being read"},
    {"wait_tripwire_ns", &Telemetry::wait_tripwire_ns,
     "fault taken to chunk shown, of chunks that were there"},
    {"read_latency_ns", &Telemetry::read_latency_ns, "a read's start to its end"},
}};

}  // namespace

std::span<const NamedCounter> named_counters() { return counters; }
std::span<const NamedHistogram> named_histograms() { return histograms; }

}  // namespace weightpager::telemetry
