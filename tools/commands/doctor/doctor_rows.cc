#include "tools/commands/doctor/doctor_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "pager/base/units.h"
#include "pager/fault/userfaultfd_abi.h"
#include "pager/pager.h"
#include "tools/terminal/figures.h"

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* untried = "not tried without userfaultfd";
constexpr const char* huge_page_directory = "/sys/kernel/mm/transparent_hugepage";

/// The ring of the io_uring reader must fit into the limit. It is made to fit the smallest usual
/// one.
constexpr uint64_t memlock_bytes_min = 64 * KiB;
/// The kernel's own default. Somebody who set a lower limit was not thinking of engines.
constexpr uint64_t map_count_min = 65530;
/// Slower disks take minutes for reads that a present-day disk does in seconds.
constexpr double slow_bytes_per_second = 300e6;
/// Reading a smaller model would measure the disk's cache rather than the disk.
constexpr uint64_t measurable_bytes = 64 * MiB;

Json limit_json(uint64_t bytes) { return bytes == unlimited_bytes ? Json(nullptr) : Json(bytes); }

std::string limit_text(uint64_t bytes) {
  return bytes == unlimited_bytes ? "unlimited" : format_size(bytes);
}

const char* yes_no(bool is_so) { return is_so ? "yes" : "no"; }

/// A window that leaves a fifth of `memory_bytes` to the engine; "" if that is too small for any
/// window.
std::string smaller_window(uint64_t memory_bytes) {
  const uint64_t window_bytes = round_down(memory_bytes / 5 * 4, chunk_bytes_max);
  return window_bytes < window_bytes_min ? "" : fmt::format("--window {}MiB", window_bytes / MiB);
}

std::string joined(const std::string& first, const std::string& second) {
  return first.empty() ? second : fmt::format("{}, or {}", first, second);
}

// --- userfaultfd --------------------------------------------------------------------------------

Row kernel_row(const SystemFacts& system) {
  return {"kernel", RowVerdict::information, system.kernel, "", {{"version", system.kernel}}};
}

struct DoorWords {
  const char* name;
  const char* errno_key;
  const char* way;
};

constexpr std::array<DoorWords, fault::doors.size()> door_words = {{
    {"device", "device_errno", fault::device_path},
    {"system call", "system_call_errno", "the system call"},
    {"user mode only", "user_mode_errno", "the system call for user mode"},
}};

const DoorWords& words_for(fault::Door door) { return door_words[static_cast<size_t>(door)]; }

Row userfaultfd_row(const UserfaultfdAccess& access) {
  Row row{"userfaultfd", RowVerdict::ok, "", userfaultfd_cure(access), {}};
  const auto door = access.door();
  row.facts = {{"door", door ? words_for(*door).name : "none"}};
  for (const fault::Door each : fault::doors) {
    row.facts[words_for(each).errno_key] = access.error_of(each);
  }
  row.facts["has_seccomp_filter"] = access.has_seccomp_filter;
  row.facts["features"] = access.features;
  if (const auto open = check_userfaultfd(access); !open) {
    row.verdict = RowVerdict::fail;
    row.finding = open.error().message;
  } else if (access.serves_all_faults()) {
    row.finding = fmt::format("all faults, through {}", words_for(*door).way);
  } else {
    row.verdict = RowVerdict::warn;
    row.finding = fmt::format(
        "user-mode only for user {}: system calls on weights that are not resident fail (EFAULT)",
        access.user);
  }
  return row;
}

Row mapper_row(const SystemFacts& system) {
  const MapperFacts& mapper = system.mapper;
  const bool has_move = (system.userfaultfd.features & UFFD_FEATURE_MOVE) != 0;
  Row row{"mapper", RowVerdict::ok, "", "", {}};
  row.facts = {{"name", mapper.name}, {"has_move", has_move}};
  if (!system.userfaultfd.is_available()) {
    row.verdict = RowVerdict::information;
    row.finding = untried;
  } else if (mapper.name.empty()) {
    row.verdict = RowVerdict::fail;
    row.finding = "none works: " + mapper.problem.message;
    row.cure = mapper.problem.hint;
  } else if (mapper.name == "copy") {
    row.verdict = RowVerdict::warn;
    row.finding = "copy, 0.6 ms a chunk: " + mapper.problem.message;
    row.cure = has_move ? "see the rows userfaultfd and huge pages"
                        : "boot Linux 6.8 or newer (Debian 12: apt install -t bookworm-backports "
                          "linux-image-amd64)";
  } else {
    row.finding = fmt::format("{}: chunks get into place without a copy", mapper.name);
  }
  return row;
}

// The module is optional: a missing module is no fault, but a module that cannot be used may be
// one.
Row module_row(const std::optional<Error>& problem) {
  Row row{"kernel_module", RowVerdict::ok, "", "", {{"works", !problem.has_value()}}};
  if (!problem) {
    row.finding = "works: GPUs' drivers, too, wait for weights that are not in memory";
  } else if (problem->error_number == ENOENT) {
    row.verdict = RowVerdict::information;
    row.finding = "not loaded: needed only where GPUs' drivers touch weights (kmod/README.md)";
  } else {
    row.verdict = RowVerdict::warn;
    row.finding = problem->message;
    row.cure = problem->hint;
  }
  return row;
}

Row written_pages_row(const SystemFacts& system) {
  const uint64_t features = system.userfaultfd.features;
  const bool can_protect = (features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
  const bool is_asynchronous = (features & UFFD_FEATURE_WP_ASYNC) != 0;
  Row row{"written_pages", RowVerdict::ok, "", "", {}};
  row.facts = {{"has_write_protection", can_protect},
               {"has_asynchronous_write_protection", is_asynchronous},
               {"has_pagemap_scan", system.has_pagemap_scan}};
  if (!system.userfaultfd.is_available()) {
    row.verdict = RowVerdict::information;
    row.finding = untried;
    return row;
  }
  if (is_asynchronous && system.has_pagemap_scan) {
    row.finding = "found by asynchronous write protection and PAGEMAP_SCAN";
    return row;
  }
  row.verdict = RowVerdict::warn;
  row.finding = "cannot be told from others: no asynchronous write protection or PAGEMAP_SCAN";
  row.cure = "boot Linux 6.7 or newer, if engines map their weights writable (PyTorch does)";
  return row;
}

// --- reading and memory -------------------------------------------------------------------------

Row uring_row(const SystemFacts& system) {
  Row row{"io_uring", RowVerdict::ok, "works", "", {{"works", !system.uring_problem.has_value()}}};
  if (!system.uring_problem) return row;
  row.verdict = RowVerdict::warn;
  row.finding = system.uring_problem->message + ": threads read instead, a little slower";
  row.cure = system.uring_problem->hint;
  return row;
}

std::string huge_page_cure(const HugePageFacts& huge) {
  if (huge.is_disabled_for_process) {
    return "start weightpager from another shell: a parent of this one called "
           "prctl(PR_SET_THP_DISABLE)";
  }
  if (huge.mode.empty()) return "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE";
  if (huge.mode == "never") {
    return fmt::format("echo madvise | sudo tee {}/enabled", huge_page_directory);
  }
  if (huge.mode_of_2mib == "never") {
    return fmt::format("echo inherit | sudo tee {}/hugepages-2048kB/enabled", huge_page_directory);
  }
  return "free some memory, then: echo 1 | sudo tee /proc/sys/vm/compact_memory";
}

Row huge_pages_row(const HugePageFacts& huge) {
  Row row{"huge_pages", RowVerdict::ok, "", "", {}};
  row.facts = {{"mode", huge.mode},
               {"mode_of_2mib", huge.mode_of_2mib},
               {"is_disabled_for_process", huge.is_disabled_for_process},
               {"probe_became_huge", huge.probe_became_huge}};
  const std::string mode = huge.mode.empty() ? "none" : huge.mode;
  if (huge.probe_became_huge) {
    row.finding = mode + ": a range of 2 MiB became one huge page";
    return row;
  }
  row.verdict = RowVerdict::warn;
  row.finding = mode + ": a range of 2 MiB stayed small pages, chunks move 20 times slower";
  row.cure = huge_page_cure(huge);
  return row;
}

/// Only windows in shared memory use shared huge pages, and the kernel gives none by default.
Row shared_huge_pages_row(const HugePageFacts& huge) {
  const std::string mode = huge.shared_mode.empty() ? "none" : huge.shared_mode;
  return {"shared_huge_pages", RowVerdict::information, mode, "", {{"mode", huge.shared_mode}}};
}

Row memlock_row(const SystemFacts& system) {
  Row row{"memlock", RowVerdict::ok, limit_text(system.memlock_bytes), "", {}};
  row.facts = {{"limit_bytes", limit_json(system.memlock_bytes)}};
  if (system.memlock_bytes >= memlock_bytes_min) return row;
  row.verdict = RowVerdict::warn;
  row.finding +=
      fmt::format(": less than {}, the kernel may refuse io_uring", format_size(memlock_bytes_min));
  row.cure = fmt::format("sudo prlimit --pid $$ --memlock={}", memlock_bytes_min);
  return row;
}

Row map_count_row(const SystemFacts& system) {
  Row row{"max_map_count", RowVerdict::ok, fmt::format("{}", system.max_map_count), "", {}};
  row.facts = {{"mappings", system.max_map_count}};
  if (system.max_map_count >= map_count_min) return row;
  row.verdict = RowVerdict::warn;
  row.finding += fmt::format(": less than the kernel's default of {}", map_count_min);
  row.cure = fmt::format("sudo sysctl vm.max_map_count={}", map_count_min);
  return row;
}

Row address_space_row(const Facts& facts) {
  const uint64_t limit_bytes = facts.system.address_space_bytes;
  const uint64_t model_bytes = facts.model && *facts.model ? (*facts.model)->size_bytes : 0;
  const uint64_t needed_bytes = model_bytes + facts.window_bytes.value_or(window_bytes_min);
  Row row{"address_space", RowVerdict::ok, limit_text(limit_bytes), "", {}};
  row.facts = {{"limit_bytes", limit_json(limit_bytes)}, {"needed_bytes", needed_bytes}};
  if (limit_bytes == unlimited_bytes) return row;
  row.verdict = needed_bytes > limit_bytes ? RowVerdict::fail : RowVerdict::warn;
  row.finding += fmt::format(": model and window take {} of it{}", format_size(needed_bytes),
                             model_bytes == 0 ? " and the model's size" : "");
  row.cure = "ulimit -v unlimited";
  return row;
}

Row memory_row(const Facts& facts) {
  const SystemFacts& system = facts.system;
  Row row{"memory", RowVerdict::ok, "", "", {}};
  row.finding = fmt::format("{} available of {}", format_size(system.memory_available_bytes),
                            format_size(system.memory_bytes));
  row.facts = {{"total_bytes", system.memory_bytes},
               {"available_bytes", system.memory_available_bytes}};
  if (facts.window_bytes.value_or(window_bytes_min) <= system.memory_available_bytes) return row;
  row.verdict = RowVerdict::warn;
  row.finding += fmt::format(", less than the window of {}",
                             format_size(facts.window_bytes.value_or(window_bytes_min)));
  row.cure = joined(smaller_window(system.memory_available_bytes), "end other programs");
  return row;
}

/// The limit that `weightpager run` compares a window with.
Row memory_limit_row(const Facts& facts) {
  const MemoryLimit& limit = facts.system.memory_limit;
  const uint64_t window_bytes = facts.window_bytes.value_or(window_bytes_min);
  const bool is_cgroup = limit.bytes < facts.system.memory_bytes;
  Row row{"memory_limit", RowVerdict::ok, "", "", {}};
  row.finding = fmt::format("{} ({})", format_size(limit.bytes),
                            is_cgroup ? limit.source : "the machine's memory, no cgroup is below");
  row.facts = {{"limit_bytes", limit.bytes}, {"source", limit.source}, {"is_cgroup", is_cgroup}};
  row.facts["window_bytes"] = facts.window_bytes ? Json(*facts.window_bytes) : Json(nullptr);
  if (window_bytes <= limit.bytes / 10 * 9) return row;
  const bool is_above = window_bytes > limit.bytes;
  row.verdict = is_above ? RowVerdict::fail : RowVerdict::warn;
  row.finding +=
      is_above ? fmt::format(": too small for a window of {}", format_size(window_bytes))
               : fmt::format(": beside a window of {} the engine has {}", format_size(window_bytes),
                             format_size(limit.bytes - window_bytes));
  row.cure = smaller_window(limit.bytes);
  if (is_cgroup) {
    row.cure = joined(row.cure, fmt::format("echo {} | sudo tee {}",
                                            round_up(window_bytes / 4 * 5, MiB), limit.source));
  }
  return row;
}

Row swap_row(const SwapFacts& swap) {
  Row row{"swap", RowVerdict::information, "none", "", {}};
  row.facts = {{"total_bytes", swap.total_bytes},
               {"used_bytes", swap.used_bytes},
               {"has_zswap", swap.has_zswap}};
  if (swap.total_bytes == 0) return row;
  row.finding = fmt::format(
      "{} of {} used{}: short of memory, the kernel would write the window there",
      format_size(swap.used_bytes), format_size(swap.total_bytes), swap.has_zswap ? ", zswap" : "");
  return row;
}

// --- the model ----------------------------------------------------------------------------------

Row control_row(const SystemFacts& system) {
  const bool is_there = system.control_directory.has_value();
  Row row{"control", RowVerdict::ok, "", "", {{"directory", nullptr}}};
  if (!is_there) {
    row.verdict = RowVerdict::warn;
    row.finding = system.control_directory.error().message +
                  ": `weightpager stat` and its like will not find engines";
    row.cure = system.control_directory.error().hint;
    return row;
  }
  row.facts["directory"] = *system.control_directory;
  row.finding = "sockets of live pagers lie in " + *system.control_directory;
  if (system.address_space_bytes != unlimited_bytes) {
    row.verdict = RowVerdict::warn;
    row.finding = "there is none where address space is limited";
    row.cure = "ulimit -v unlimited";
  }
  return row;
}

Row refused_model_row(const Error& error) {
  return {"model", RowVerdict::fail, error.message, error.hint, {{"error", error.message}}};
}

Row model_row(const ModelFacts& model) {
  Row row{"model", RowVerdict::ok, "", "", {}};
  row.finding = fmt::format("{}{}{}, {} in {} file{}, {} layers, {} tensors", model.format,
                            model.architecture.empty() ? "" : " ", model.architecture,
                            format_size(model.size_bytes), model.files, model.files == 1 ? "" : "s",
                            model.layers, model.tensors);
  row.facts = {{"path", model.path},
               {"format", model.format},
               {"architecture", model.architecture},
               {"size_bytes", model.size_bytes},
               {"files", model.files},
               {"layers", model.layers},
               {"tensors", model.tensors},
               {"largest_layer_bytes", model.largest_layer_bytes},
               {"is_found_by_name", model.is_found_by_name}};
  if (model.is_found_by_name) return row;
  row.verdict = RowVerdict::warn;
  row.finding += ": not paged by its name";
  const size_t dot = model.path.find_last_of("./");
  const bool has_ending = dot != std::string::npos && model.path[dot] == '.';
  row.cure = fmt::format("weightpager run --match '*{}'",
                         model.path.substr(dot == std::string::npos ? 0 : dot + !has_ending));
  return row;
}

Row filesystem_row(const ModelFacts& model) {
  Row row{"filesystem", RowVerdict::information, "", "", {}};
  row.finding = model.filesystem.empty() ? "unknown"
                                         : fmt::format("{} on {}", model.filesystem, model.source);
  row.facts = {{"type", model.filesystem}, {"source", model.source}};
  return row;
}

Row direct_reads_row(const ModelFacts& model) {
  Row row{"direct_reads", RowVerdict::ok, "", "", {}};
  row.facts = {{"works", model.cached_file.empty()}, {"alignment_bytes", model.alignment_bytes}};
  if (model.cached_file.empty()) {
    row.finding = fmt::format("O_DIRECT works, in units of {} bytes", model.alignment_bytes);
    return row;
  }
  row.verdict = RowVerdict::warn;
  const bool lives_in_memory = model.filesystem == "tmpfs" || model.filesystem == "ramfs";
  row.finding = lives_in_memory
                    ? fmt::format("{} keeps the whole model in memory: paging saves nothing",
                                  model.filesystem)
                    : fmt::format("no O_DIRECT for {}: the page cache keeps a second copy",
                                  model.cached_file);
  row.cure = fmt::format("cp -L {} /a/folder/on/ext4-xfs-or-btrfs/", model.cached_file);
  return row;
}

Row device_row(const io::DeviceLimits& device) {
  Row row{"device", RowVerdict::information, "", "", {}};
  row.finding =
      fmt::format("{} reads of {}; the kernel's own mmap reads ahead {}", device.queue_depth,
                  format_size(device.read_bytes), format_size(device.readahead_bytes));
  row.facts = {{"read_bytes", device.read_bytes},
               {"queue_depth", device.queue_depth},
               {"readahead_bytes", device.readahead_bytes}};
  return row;
}

double bytes_per_second(const ReadingFacts& reading) {
  return reading.elapsed_ns == 0
             ? 0
             : static_cast<double>(reading.read_bytes) / seconds(reading.elapsed_ns);
}

/// A speed that is not known: it could not be measured, or there was too little to measure.
void say_not_measured(Row& row, const std::optional<Error>& problem,
                      const std::string& too_little) {
  row.verdict = problem ? RowVerdict::fail : RowVerdict::information;
  row.finding = problem ? problem->message : "not measured: " + too_little;
  if (problem) row.cure = problem->hint;
}

Row reading_row(const ModelFacts& model) {
  const ReadingFacts& reading = model.reading;
  const double speed = bytes_per_second(reading);
  const bool is_measured = !reading.problem && reading.read_bytes >= measurable_bytes;
  Row row{"reading", RowVerdict::ok, "", "", {}};
  row.facts = {{"bytes_per_second", is_measured ? Json(speed) : Json(nullptr)},
               {"read_bytes", reading.read_bytes},
               {"elapsed_ns", reading.elapsed_ns},
               {"reader", reading.reader},
               {"buffer_bytes", reading.buffer_bytes},
               {"buffer_huge_bytes", reading.huge_bytes}};
  if (!is_measured) {
    say_not_measured(row, reading.problem,
                     fmt::format("a model below {} tells nothing", format_size(measurable_bytes)));
    return row;
  }
  row.finding = fmt::format(
      "{:.2f} GB/s over {:.1f} s ({}, {}, {})", speed / 1e9, seconds(reading.elapsed_ns),
      reading.reader, model.cached_file.empty() ? "direct" : "through the page cache",
      reading.huge_bytes == reading.buffer_bytes ? "huge pages" : "small pages");
  if (speed >= slow_bytes_per_second) return row;
  row.verdict = RowVerdict::warn;
  row.finding += ": slow";
  row.cure = fmt::format("cp -L {} /a/folder/on/a/local/solid-state/disk/", model.path);
  return row;
}

Row window_row(const Facts& facts, const ModelFacts& model) {
  Row row{"window", RowVerdict::information, "", "", {}};
  row.facts = {{"smallest_bytes", window_bytes_min}, {"model_bytes", model.size_bytes}};
  row.facts["window_bytes"] = facts.window_bytes ? Json(*facts.window_bytes) : Json(nullptr);
  if (!facts.window_bytes) {
    const uint64_t memory_bytes =
        std::min(facts.system.memory_limit.bytes, facts.system.memory_available_bytes);
    row.finding = fmt::format(
        "from {} on; the model {}", format_size(window_bytes_min),
        model.size_bytes <= memory_bytes ? "would fit into memory whole" : "is larger than memory");
    return row;
  }
  const uint64_t held_bytes = std::min(*facts.window_bytes, model.size_bytes);
  const uint64_t streamed_bytes = model.size_bytes - held_bytes;
  row.facts["streamed_bytes_min"] = streamed_bytes;
  row.finding = fmt::format("holds {:.0f} % of the model",
                            100.0 * static_cast<double>(held_bytes) /
                                static_cast<double>(std::max(model.size_bytes, uint64_t{1})));
  if (streamed_bytes == 0) return row;
  row.finding += fmt::format("; a pass reads at least {}", format_size(streamed_bytes));
  const double speed = bytes_per_second(model.reading);
  if (model.reading.read_bytes < measurable_bytes || model.reading.problem) return row;
  row.finding += fmt::format(", {:.2f} s", static_cast<double>(streamed_bytes) / speed);
  return row;
}

Row workers_row() {
  return {"workers", RowVerdict::information,
          "children that are forked after the model is mapped are outside the window: let workers "
          "map it themselves, by `weightpager serve` and `run --attach`",
          "", Json::object()};
}

void add_model_rows(std::vector<Row>& rows, const Facts& facts) {
  if (!facts.model) return;
  if (!*facts.model) return rows.push_back(refused_model_row(facts.model->error()));
  const ModelFacts& model = **facts.model;
  rows.push_back(model_row(model));
  rows.push_back(filesystem_row(model));
  rows.push_back(direct_reads_row(model));
  rows.push_back(device_row(model.device));
  rows.push_back(reading_row(model));
  rows.push_back(window_row(facts, model));
  rows.push_back(workers_row());
}

// --- memory of the engine's own -----------------------------------------------------------------

/// What serving such memory takes of the kernel, whatever the folder.
Row spilling_row(const UserfaultfdAccess& access) {
  const bool has_move = (access.features & UFFD_FEATURE_MOVE) != 0;
  const bool works = has_move && access.serves_all_faults();
  Row row{"spilling", RowVerdict::ok, "", "", {{"works", works}}};
  if (!access.is_available()) {
    row.verdict = RowVerdict::information;
    row.finding = untried;
  } else if (works) {
    row.finding =
        "weights that engines read can be served; with run --spill those that they convert or "
        "repack, too";
  } else if (!has_move) {
    row.verdict = RowVerdict::warn;
    row.finding = "run --spill is refused: this kernel cannot move pages (UFFDIO_MOVE)";
    row.cure = "boot Linux 6.8 or newer";
  } else {
    row.verdict = RowVerdict::warn;
    row.finding = "run --spill is refused: no right to serve faults inside system calls";
    row.cure = userfaultfd_cure(access);
  }
  return row;
}

Row spill_folder_row(const SpillFacts& spill) {
  Row row{"spill_folder", RowVerdict::ok, "", "", {}};
  row.facts = {{"folder", spill.folder}, {"works", !spill.problem.has_value()}};
  if (spill.problem) {
    row.verdict = RowVerdict::fail;
    row.finding = spill.problem->message;
    row.cure = spill.problem->hint;
    return row;
  }
  row.facts["type"] = spill.filesystem;
  row.facts["source"] = spill.source;
  row.facts["is_direct"] = spill.is_direct;
  row.finding = fmt::format("{}: {} on {}", spill.folder, spill.filesystem, spill.source);
  if (spill.is_direct) return row;
  row.verdict = RowVerdict::warn;
  row.finding += ": no O_DIRECT, so what is written lies in the page cache, too";
  row.cure = "--spill /a/folder/on/ext4-xfs-or-btrfs";
  return row;
}

/// What an engine that converts or repacks all of the model writes when it starts; nullopt if that
/// is not known.
std::optional<uint64_t> written_at_start_bytes(const Facts& facts) {
  if (!facts.model || !*facts.model || !facts.window_bytes) return std::nullopt;
  const uint64_t model_bytes = (*facts.model)->size_bytes;
  return model_bytes - std::min(model_bytes, *facts.window_bytes);
}

Row spill_room_row(const Facts& facts, const SpillFacts& spill) {
  const auto needed_bytes = written_at_start_bytes(facts);
  Row row{"spill_room", RowVerdict::ok, format_size(spill.room_bytes) + " free", "", {}};
  row.facts = {{"room_bytes", spill.room_bytes}};
  row.facts["needed_bytes"] = needed_bytes ? Json(*needed_bytes) : Json(nullptr);
  if (!needed_bytes || *needed_bytes <= spill.room_bytes) return row;
  row.verdict = RowVerdict::warn;
  row.finding += fmt::format(": an engine that converts or repacks this model needs {}",
                             format_size(*needed_bytes));
  row.cure = "free some (`df`), or --spill a folder on another disk";
  return row;
}

Row spill_writing_row(const Facts& facts, const SpillFacts& spill) {
  const WritingFacts& writing = spill.writing;
  const bool is_measured = !writing.problem && writing.written_bytes >= measurable_bytes / 4;
  const double speed = writing.elapsed_ns == 0 ? 0
                                               : static_cast<double>(writing.written_bytes) /
                                                     seconds(writing.elapsed_ns);
  Row row{"spill_writing", RowVerdict::ok, "", "", {}};
  row.facts = {{"bytes_per_second", is_measured ? Json(speed) : Json(nullptr)},
               {"written_bytes", writing.written_bytes},
               {"elapsed_ns", writing.elapsed_ns}};
  if (!is_measured) {
    say_not_measured(row, writing.problem, "too little room");
    return row;
  }
  row.finding = fmt::format("{:.2f} GB/s over {:.1f} s", speed / 1e9, seconds(writing.elapsed_ns));
  if (const auto bytes = written_at_start_bytes(facts)) {
    row.finding += fmt::format("; what does not fit of a repacked copy takes {:.1f} s",
                               static_cast<double>(*bytes) / speed);
  }
  if (speed >= slow_bytes_per_second) return row;
  row.verdict = RowVerdict::warn;
  row.finding += ": slow, and each start waits for it";
  row.cure = "--spill /a/folder/on/a/local/solid-state/disk";
  return row;
}

Row spill_wear_row(const Facts& facts, const SpillFacts& spill) {
  const auto bytes = written_at_start_bytes(facts);
  Row row{"spill_wear", RowVerdict::information, "", "", {}};
  row.facts = {{"is_rotational", spill.is_rotational ? Json(*spill.is_rotational) : Json(nullptr)},
               {"start_bytes_max", bytes ? Json(*bytes) : Json(nullptr)}};
  row.finding = fmt::format(
      "an engine that converts or repacks its weights writes {} at each start; one that reads or "
      "maps them, nothing (`spill_written_bytes` of run --json)",
      bytes ? "up to " + format_size(*bytes) : "what does not fit into the window");
  // Virtual disks are often taken for spinning ones.
  if (spill.is_rotational.value_or(false))
    row.finding += "; the kernel takes this disk for a spinning one, which does not wear";
  return row;
}

void add_spill_rows(std::vector<Row>& rows, const Facts& facts) {
  if (!facts.spill) return;
  rows.push_back(spill_folder_row(*facts.spill));
  if (facts.spill->problem) return;
  rows.push_back(spill_room_row(facts, *facts.spill));
  rows.push_back(spill_writing_row(facts, *facts.spill));
  rows.push_back(spill_wear_row(facts, *facts.spill));
}

// --- CUDA ---------------------------------------------------------------------------------------

Row cuda_device_row(size_t number, const CudaDevice& device) {
  Row row{"cuda", RowVerdict::ok, "", "", {}};
  row.finding = fmt::format(
      "{}, {}; unified addressing {}, maps host memory {}, pageable access {}, stream waits {}",
      device.name, format_size(device.memory_bytes), yes_no(device.has_unified_addressing),
      yes_no(device.can_map_host_memory), yes_no(device.has_pageable_memory_access),
      yes_no(device.can_use_stream_memory_operations));
  row.facts = {{"device", number},
               {"name", device.name},
               {"memory_bytes", device.memory_bytes},
               {"has_unified_addressing", device.has_unified_addressing},
               {"has_pageable_memory_access", device.has_pageable_memory_access},
               {"can_map_host_memory", device.can_map_host_memory},
               {"can_use_stream_memory_operations", device.can_use_stream_memory_operations}};
  return row;
}

void add_cuda_rows(std::vector<Row>& rows, const CudaFacts& cuda) {
  if (!cuda.has_driver) {
    rows.push_back(
        {"cuda", RowVerdict::information, "no CUDA driver", "", {{"has_driver", false}}});
    return;
  }
  if (!cuda.problem.empty()) {
    rows.push_back({"cuda",
                    RowVerdict::warn,
                    "the driver's library is there, but says " + cuda.problem,
                    "nvidia-smi (it says more), or start the container with --gpus all",
                    {{"has_driver", true}, {"problem", cuda.problem}}});
  }
  for (size_t number = 0; number < cuda.devices.size(); number++) {
    rows.push_back(cuda_device_row(number, cuda.devices[number]));
  }
}

}  // namespace

const char* verdict_name(RowVerdict verdict) {
  switch (verdict) {
    case RowVerdict::information:
      return "info";
    case RowVerdict::ok:
      return "ok";
    case RowVerdict::warn:
      return "warn";
    case RowVerdict::fail:
      return "fail";
  }
  return "";
}

std::vector<Row> judge(const Facts& facts) {
  const SystemFacts& system = facts.system;
  std::vector<Row> rows = {kernel_row(system),
                           userfaultfd_row(system.userfaultfd),
                           mapper_row(system),
                           spilling_row(system.userfaultfd),
                           module_row(system.module_problem),
                           written_pages_row(system),
                           uring_row(system),
                           huge_pages_row(system.huge_pages),
                           shared_huge_pages_row(system.huge_pages),
                           memlock_row(system),
                           map_count_row(system),
                           address_space_row(facts),
                           memory_row(facts),
                           memory_limit_row(facts),
                           swap_row(system.swap),
                           control_row(system)};
  add_model_rows(rows, facts);
  add_spill_rows(rows, facts);
  add_cuda_rows(rows, facts.cuda);
  return rows;
}

RowVerdict worst(const std::vector<Row>& rows) {
  RowVerdict verdict = RowVerdict::ok;
  for (const Row& row : rows) verdict = std::max(verdict, row.verdict);
  return verdict;
}

}  // namespace weightpager::tools
