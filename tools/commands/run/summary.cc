#include "tools/commands/run/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "pager/base/units.h"
#include "pager/pager.h"
#include "tools/arguments/model_arguments.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using telemetry::Telemetry;

constexpr size_t summary_columns = 80;
constexpr size_t summary_label_columns = 12;  // two of indent, the label, the gap to the text
constexpr size_t summary_command_columns = 16;

/// Waiting less than this is not worth anybody's while.
constexpr double stall_share_small = 0.05;
/// From here on reading ahead does not work: so much had to be read when it was touched.
constexpr double demand_read_share_large = 0.1;
/// From here on the disk is the bound: it rests only while the engine starts, or computes and the
/// ring is full.
constexpr double read_busy_share_large = 0.7;
/// A window that is larger by less than this is well chosen.
constexpr double window_excess_small = 0.1;

double divide(double dividend, double divisor) { return divisor > 0 ? dividend / divisor : 0; }

std::string in_ascii(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text;
}

/// Breaks `text` at spaces so that it fits beside the labels.
std::string wrap(const std::string& text) {
  std::istringstream words(text);
  std::string lines, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > summary_columns - summary_label_columns) {
      lines += line + "\n" + std::string(summary_label_columns, ' ');
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  return lines + line;
}

std::string row(const char* label, const std::string& text) {
  return fmt::format("  {:<{}}{}\n", label, summary_label_columns - 2, wrap(text));
}

// Memory that came after the weights were mapped; programs and libraries were there before.
uint64_t engine_growth_bytes(const Telemetry& process) {
  const uint64_t start_bytes = process.engine_bytes_start;
  const uint64_t most_bytes = process.engine_bytes_max;
  return most_bytes > start_bytes ? most_bytes - start_bytes : 0;
}

std::string copied_weights_advice(const Telemetry& process) {
  const char* const cure = *process.profile
                               ? "--spill DIR pages it"
                               : "--spill DIR pages it; without --no-profile llama.cpp makes none";
  return fmt::format("the engine holds a copy of its weights outside the window ({}): {}",
                     format_size(engine_growth_bytes(process)), cure);
}

/// What the window served at most. An engine may end before the pager has counted its blocks among
/// what it pages.
uint64_t served_bytes(const Telemetry& process) {
  return process.model_bytes > 0 ? process.model_bytes : process.block_bytes_max;
}

/// The first touch is a fault, whatever was read ahead of it.
bool was_touched(const Telemetry& process) {
  return process.faults_demand + process.faults_late + process.faults_tripwire > 0;
}

std::string all_fitted_advice(const Telemetry& process) {
  const uint64_t enough_bytes =
      std::max(round_up(process.resident_bytes_max, 2 * MiB), window_bytes_min);
  const double excess =
      divide(static_cast<double>(process.window_bytes), static_cast<double>(enough_bytes)) - 1;
  if (excess < window_excess_small) return "everything fitted into the window";
  return fmt::format("everything fitted: a window of {} would do as well",
                     format_size(enough_bytes));
}

/// A pass reads what the window does not keep; only the ring, through which it is read, keeps
/// nothing.
std::string bound_by_reading_advice(const Telemetry& process, uint64_t memory_bytes) {
  const uint64_t kept_bytes = process.window_bytes - process.ring_bytes;
  const uint64_t pass_bytes =
      process.model_bytes - std::min<uint64_t>(kept_bytes, process.model_bytes);
  const uint64_t halving_bytes = round_up(process.window_bytes + pass_bytes / 2, 2 * MiB);
  if (halving_bytes > memory_bytes) {
    return "the disk is the bound and memory too small for a better window: "
           "a faster disk or smaller weights would help";
  }
  return fmt::format("the disk is the bound: a window of {} would halve the reading",
                     format_size(halving_bytes));
}

/// Nobody knows which experts come next: what counts is how many of them stay.
std::string experts_advice(const Telemetry& process) {
  return fmt::format(
      "{:.0f}% of the experts that were used were not in the window: "
      "a larger one would keep more of them",
      100 * divide(static_cast<double>(process.expert_misses),
                   static_cast<double>(process.expert_uses)));
}

/// Of all that a pass (a token) read, what it could not do without: chunks of experts that it used
/// while they were not in the window.
std::string experts_text(const Telemetry& process) {
  const uint64_t passes = std::max<uint64_t>(process.passes, 1);
  return fmt::format("{} uses, {} misses; read per pass {}, missing {}", process.expert_uses.load(),
                     process.expert_misses.load(), format_size(process.read_bytes / passes),
                     format_size(process.expert_missing_bytes / passes));
}

/// What came of looking at other policies, if one of them took over.
std::string change_text(const Telemetry& process) {
  const std::string_view policy = policy::policy_name(process.policy);
  if (process.former_policy == 0) {
    return fmt::format("{} again, another looked better on paper and was not", policy);
  }
  const double after_s = seconds(process.policy_changed_ns - process.started_ns);
  const std::string proof = process.wait_ns == 0
                                ? "not proved yet"
                                : fmt::format("waits {:.2f} times as long",
                                              divide(static_cast<double>(process.wait_ns),
                                                     static_cast<double>(process.former_wait_ns)));
  return fmt::format("{} took over from {} after {:.1f} s, {}", policy,
                     policy::policy_name(process.former_policy), after_s, proof);
}

/// What each mirror gave.
std::string mirrors_text(const RunReport& report, const Telemetry& process) {
  const uint64_t of_mirrors[] = {process.mirror_1_read_bytes, process.mirror_2_read_bytes,
                                 process.mirror_3_read_bytes};
  std::string text;
  for (size_t i = 0; i < report.options.mirrors.size(); ++i) {
    text += fmt::format("{}{} of this from {}", i == 0 ? "" : ", ", format_size(of_mirrors[i]),
                        in_ascii(report.options.mirrors[i]));
  }
  if (process.copies_given_up > 0) text += "; not all to the end, as the lines above say";
  return text;
}

/// What became of memory of the engine's own.
std::string spilled_text(const Telemetry& process) {
  std::string text =
      fmt::format("{} of blocks at most; read lazily {}; written {}, read back {}",
                  format_size(process.block_bytes_max), format_size(process.lazy_read_bytes),
                  format_size(process.spill_written_bytes), format_size(process.spill_read_bytes));
  if (process.spill_errors > 0) {
    text += fmt::format("; {} writes failed, as the lines above say", process.spill_errors.load());
  }
  return text;
}

/// What earlier runs have saved this one, and what it saves the next.
std::string kept_text(const Telemetry& process) {
  return fmt::format("{} found, not written again; {} kept for the next run",
                     format_size(process.spill_found_bytes), format_size(process.spill_kept_bytes));
}

/// Of the policy only if it is not the one that most have.
std::string other_policy(std::string_view policy) {
  return policy.empty() || policy == policy::default_policy ? ""
                                                            : fmt::format(", policy {}", policy);
}

std::string sentence(const Finding& finding) {
  return in_ascii(finding.text + "; " + finding.cure);
}

// Its faults and reads are the server's to tell.
std::string attached_text(const RunReport& report, const Telemetry& process) {
  const std::string command = in_ascii(process.command).substr(0, summary_command_columns);
  std::string text = fmt::format("weightpager: {} (pid {}), attached to a server's window\n",
                                 command, process.process_id);
  const Finding* const finding = finding_about(report.findings, process);
  if (process.read_errors > 0) {
    text += row("advice", "the server ended before the engine did");
  } else if (finding != nullptr) {
    text += row("advice", sentence(*finding));
  }
  return text;
}

std::string process_text(const RunReport& report, const Telemetry& process) {
  if (std::string_view(process.mapper) == telemetry::attached)
    return attached_text(report, process);
  const Ratios ratio = ratios(process);
  const std::string command = in_ascii(process.command).substr(0, summary_command_columns);
  std::string text = fmt::format("weightpager: {} (pid {}), window {}, mapper {}{}\n", command,
                                 process.process_id, format_size(process.window_bytes),
                                 process.mapper, other_policy(policy::policy_name(process.policy)));
  text += row("memory", fmt::format("peak {} of the model's {}; engine's own {}",
                                    format_size(process.resident_bytes_max),
                                    format_size(served_bytes(process)),
                                    format_size(process.engine_bytes_max)));
  text += row("faults",
              fmt::format("{} demand, {} late, {} hidden by prefetch", process.faults_demand.load(),
                          process.faults_late.load(), process.prefetch_hidden.load()));
  text +=
      row("read", fmt::format("{} at {}/s, {:.1f} times the model", format_size(process.read_bytes),
                              format_size(static_cast<uint64_t>(ratio.read_bytes_per_second)),
                              ratio.read_model_multiple));
  if (!report.options.mirrors.empty()) text += row("mirrors", mirrors_text(report, process));
  const bool has_spilled = process.block_bytes_max > 0;
  if (report.options.spilling == SpillScope::of_all || has_spilled) {
    if (process.mapped_file_bytes > 0)
      text += row("mapped", format_size(process.mapped_file_bytes) + " of files");
    text += row("spilled", spilled_text(process));
    if (!report.options.kept_folder.empty()) text += row("copies", kept_text(process));
  }
  if (process.expert_uses > 0) text += row("experts", experts_text(process));
  text += row("stalled", fmt::format("{:.0f}% of {:.1f} s", 100 * ratio.stall_share,
                                     seconds(ratio.elapsed_ns)));
  if (process.written_bytes > 0) {
    text +=
        row("written", fmt::format("{} of weights that the engine changed, kept beyond the window",
                                   format_size(process.written_bytes)));
  }
  if (process.policy_changes > 0) text += row("policy", change_text(process));
  if (process.access_profile_chunks > 0) {
    text += row("learned",
                fmt::format("in an earlier run: order and pace of {} of the model",
                            format_size(process.access_profile_chunks * process.chunk_bytes)));
  }
  if (*process.profile) text += row("profile", in_ascii(process.profile));
  text += row("advice", advice_of(report, process));
  return text;
}

/// What nobody paged, if it is worth a word.
std::string unserved_memory_text(const RunReport& report) {
  if (report.largest_process_bytes < unserved_bytes_small) return "";
  return fmt::format("; {} of memory were held outside any window",
                     format_size(report.largest_process_bytes));
}

std::string no_model_text(const RunReport& report) {
  if (!report.findings.empty()) {
    return fmt::format("weightpager: no model was mapped: {}{}\n",
                       sentence(report.findings.front()), unserved_memory_text(report));
  }
  std::string looked_for;
  for (const std::string& pattern : model_patterns(report.options.match))
    looked_for += " " + in_ascii(pattern);
  return fmt::format("weightpager: no model was mapped; looked for{} (see --match)\n", looked_for);
}

}  // namespace

Ratios ratios(const Telemetry& process) {
  const uint64_t end_ns = std::max(process.ended_ns.load(), process.last_event_ns.load());
  const uint64_t started_ns = process.started_ns;
  const uint64_t elapsed_ns = started_ns == 0 ? 0 : end_ns - std::min(started_ns, end_ns);
  const auto elapsed = static_cast<double>(elapsed_ns);
  const auto read_bytes = static_cast<double>(process.read_bytes);
  return {elapsed_ns,
          divide(static_cast<double>(process.stall_ns), elapsed),
          divide(static_cast<double>(process.read_busy_ns), elapsed),
          divide(read_bytes, seconds(process.read_busy_ns)),
          divide(read_bytes, static_cast<double>(process.model_bytes)),
          divide(static_cast<double>(process.faults_demand * process.chunk_bytes), read_bytes)};
}

std::string advice(const Telemetry& process, uint64_t memory_bytes) {
  const Ratios ratio = ratios(process);
  if (process.read_errors > 0) {
    return fmt::format("{} reads of the model failed: the lines above name file and offset",
                       process.read_errors.load());
  }
  if (!was_touched(process)) return "no touch of the model was seen in this process";
  const bool has_copied =
      process.block_bytes_max == 0 && engine_growth_bytes(process) >= process.model_bytes / 2;
  if (has_copied) return copied_weights_advice(process);
  if (process.evictions == 0) return all_fitted_advice(process);
  if (ratio.stall_share < stall_share_small) {
    return "reading hides behind the computation: a larger window would gain little";
  }
  if (ratio.read_model_multiple <= 1) {
    return "this was the first reading of the model: a longer run tells more";
  }
  if (process.expert_misses > 0) return experts_advice(process);
  if (ratio.demand_read_share > demand_read_share_large) {
    return "the engine touches its weights in an order that is hard to foresee: "
           "a larger window would help";
  }
  if (ratio.read_busy_share < read_busy_share_large) {
    return fmt::format(
        "the engine waits, though the disk reads for only {:.0f}% of the time: "
        "`weightpager trace record` shows why",
        100 * ratio.read_busy_share);
  }
  return bound_by_reading_advice(process, memory_bytes);
}

std::string advice_of(const RunReport& report, const Telemetry& process) {
  const Finding* const finding = finding_about(report.findings, process);
  return finding != nullptr && process.read_errors == 0
             ? sentence(*finding)
             : advice(process, report.memory_limit.bytes);
}

std::string summary_text(const RunReport& report) {
  if (report.processes.empty()) return no_model_text(report);
  std::string text;
  for (const Telemetry* process : report.processes) {
    text += process_text(report, *process);
  }
  for (const Finding& finding : report.findings) {
    const bool is_told = std::any_of(
        report.processes.begin(), report.processes.end(),
        [&](const Telemetry* process) { return process->process_id == finding.process_id; });
    if (!is_told) text += fmt::format("weightpager: {}\n", sentence(finding));
  }
  return text;
}

}  // namespace weightpager::tools
