#include "tools/commands/run/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "pager/base/units.h"
#include "tools/commands/run/engine_file.h"
#include "tools/commands/run/process_facts.h"

namespace weightpager::tools {
namespace {

using telemetry::Mark;
using telemetry::MarkKind;
using telemetry::MarkPlace;
using telemetry::Telemetry;

/// A child that touched less does not compute.
constexpr uint64_t touched_bytes_small = 2 * MiB;

constexpr const char* serve_cure =
    "let each worker map the model itself, in one window: `weightpager serve`, `run --attach`";

std::string name_of(const Mark& mark) {
  return fmt::format("{} (pid {})", mark.command, mark.process_id);
}

Finding about(const Mark& mark, const char* cause, std::string text, std::string cure) {
  return {cause, mark.process_id, mark.command, std::move(text), std::move(cure)};
}

Finding plain_mapping(const Mark& mark) {
  const std::string start = name_of(mark) + " mapped a model ";
  const char* const cause = "mapped_by_kernel";
  if (mark.place == MarkPlace::fixed) {
    return about(mark, cause, start + "at a fixed address, so the kernel pages it",
                 "let the engine map it wherever there is room");
  }
  if (mark.place == MarkPlace::shared_writable) {
    return about(mark, cause, start + "shared and writable, so the kernel pages it",
                 "let the engine map it read-only, or privately");
  }
  return about(mark, cause, start + "that weightpager could not page, so the kernel pages it",
               "the lines above say why");
}

/// Why the interposer is not in a program.
const char* cause_of(const ProgramFile& program) {
  const bool is_other = program.preloading == Preloading::narrow ||
                        program.preloading == Preloading::other_machine ||
                        program.preloading == Preloading::other_c_library;
  return is_other ? "other_program" : "static_program";
}

/// A program was started without the interposer.
Finding unloaded_start(const Mark& mark, const Surroundings& surroundings) {
  const std::string start = fmt::format("{} started {}, ", name_of(mark), mark.subject);
  if (mark.kind == MarkKind::cannot_load) {
    const ProgramFile program = surroundings.look_at(mark.subject);
    const Unloadable words = unloadable(program);
    return about(mark, cause_of(program),
                 start + "which " + words.what + ", so weightpager's library is not in it",
                 words.cure);
  }
  if (mark.kind == MarkKind::gains_rights) {
    return about(mark, "gains_rights",
                 start + "which gains rights, so Linux ignores LD_PRELOAD for it",
                 "run a copy that has no such rights, or let it start weightpager");
  }
  return about(mark, "environment_lost",
               start + "without weightpager's library in LD_PRELOAD or without its variables",
               "keep LD_PRELOAD and WEIGHTPAGER_*, or start weightpager after they are changed");
}

bool is_unloaded_start(const Mark& mark) {
  return mark.kind == MarkKind::cannot_load || mark.kind == MarkKind::gains_rights ||
         mark.kind == MarkKind::lost_environment;
}

/// The marks of one run, to be searched for those of one process.
class Marks {
 public:
  explicit Marks(const std::vector<Mark>& marks) : marks_(marks) {}

  const Mark* last(MarkKind kind, int32_t process_id) const {
    const auto found = std::find_if(marks_.rbegin(), marks_.rend(), [&](const Mark& mark) {
      return mark.kind == kind && mark.process_id == process_id;
    });
    return found == marks_.rend() ? nullptr : &*found;
  }

  /// The last mark of each process.
  std::vector<const Mark*> last_of_each(std::initializer_list<MarkKind> kinds) const {
    std::map<int32_t, const Mark*> found;
    for (const Mark& mark : marks_) {
      if (std::find(kinds.begin(), kinds.end(), mark.kind) != kinds.end())
        found[mark.process_id] = &mark;
    }
    std::vector<const Mark*> list;
    for (const auto& [process_id, mark] : found) list.push_back(mark);
    return list;
  }

 private:
  const std::vector<Mark>& marks_;
};

/// Memory that a process got past the interposer, although memory is to be served.
std::vector<Finding> memory_not_served(const Marks& marks) {
  std::vector<Finding> found;
  for (const Mark* mark : marks.last_of_each({MarkKind::unseen_memory})) {
    found.push_back(
        about(*mark, "own_memory",
              fmt::format("{} held {} of memory that it got by system calls of its own, "
                          "neither by malloc nor by mmap: it is not served",
                          name_of(*mark), format_size(mark->amount)),
              "use a build of the engine that allocates by the C library"));
  }
  for (const Mark* mark : marks.last_of_each({MarkKind::mapped_memory})) {
    found.push_back(
        about(*mark, "mapped_memory",
              fmt::format("{} held up to {} of memory that it asked mmap for, as allocators "
                          "that are linked into an engine do: only blocks of malloc "
                          "are served",
                          name_of(*mark), format_size(mark->amount)),
              "use a build of the engine that allocates by malloc"));
  }
  for (const Mark* mark : marks.last_of_each({MarkKind::deep_bound})) {
    found.push_back(
        about(*mark, "deep_bound",
              fmt::format("{} opened {} with RTLD_DEEPBIND: what that library allocates "
                          "and reads is not served",
                          name_of(*mark), mark->subject),
              "let the engine open the library without that flag"));
  }
  return found;
}

/// Go's own memory and reads, in a process of which a C library's memory was served.
std::vector<Finding> memory_of_go(const Marks& marks,
                                  const std::vector<const Telemetry*>& processes,
                                  const Surroundings& surroundings) {
  std::vector<Finding> found;
  for (const Telemetry* process : processes) {
    const Mark* const mark = marks.last(MarkKind::loaded, process->process_id);
    const bool is_large = process->engine_bytes_max >= unserved_bytes_small;
    if (mark == nullptr || !is_large || !surroundings.look_at(mark->subject).is_go) continue;
    found.push_back(about(*mark, "own_system_calls",
                          fmt::format("{} is a Go program, which calls the kernel itself: {} of "
                                      "memory outside the window may be Go's own",
                                      name_of(*mark), format_size(process->engine_bytes_max)),
                          "keep weights in its C libraries"));
  }
  return found;
}

/// No process has left a mark.
Finding not_loaded(const std::string& engine, const Surroundings& surroundings) {
  const ProgramFile program = surroundings.look_at(engine);
  if (program.preloading == Preloading::works) {
    return {"not_loaded", 0, "", "weightpager's library was not loaded into " + engine,
            "does it start its engine in another container, or through a service?"};
  }
  const Unloadable words = unloadable(program);
  const std::string subject =
      program.is_script() ? fmt::format("{}, the interpreter of {},", program.interpreter, engine)
                          : engine;
  return {cause_of(program), 0, "",
          fmt::format("{} {}, so weightpager's library is not in it", subject, words.what),
          words.cure};
}

std::string cure_of_reading(const Surroundings& surroundings) {
  if (surroundings.spilling == SpillScope::of_all)
    return "let the engine read it into large blocks (4 MiB and more) of malloc's, or map it";
  const std::string cure =
      "let the engine map its model (llama.cpp: without --no-mmap and --direct-io)";
  if (!surroundings.spill_lack.empty())
    return cure + "; what it reads is not served: " + surroundings.spill_lack;
  return cure + ", or give --spill DIR, which serves all of its large memory";
}

/// `opened`: the mark of a process that did not map the model that it opened.
Finding unmapped(const Marks& marks, const Mark& opened, const Surroundings& surroundings) {
  if (marks.last(MarkKind::paging, opened.process_id) != nullptr) {
    return about(
        opened, "not_begun",
        fmt::format("{} mapped {} and ended before it was served", name_of(opened), opened.subject),
        "the lines above may say why");
  }
  if (const Mark* hook = marks.last(MarkKind::hooked, opened.process_id)) {
    return about(
        opened, "mmap_taken",
        fmt::format("{} mapped {} by {}, which is loaded in front of weightpager's library",
                    name_of(opened), opened.subject, hook->subject),
        fmt::format("give it to weightpager: LD_PRELOAD={} weightpager run ...", hook->subject));
  }
  const std::string cure = cure_of_reading(surroundings);
  const Mark* const read = marks.last(MarkKind::read, opened.process_id);
  if (read != nullptr && read->amount >= opened.amount / 2) {
    return about(opened, "model_read",
                 fmt::format("{} opened {} and read {} instead of mapping it", name_of(opened),
                             opened.subject, format_size(read->amount)),
                 cure);
  }
  return about(opened, "model_not_mapped",
               fmt::format("{} opened {} and did not map it by the C library's mmap",
                           name_of(opened), opened.subject),
               cure);
}

Finding running(const Mark& mark, bool is_served) {
  const bool has_plain_weights = mark.kind == MarkKind::forked && mark.amount != 0;
  const char* const what = is_served           ? "these numbers are only its first ones"
                           : has_plain_weights ? "it has the weights outside the window"
                                               : "it had mapped no model when the command ended";
  return about(mark, "still_running",
               fmt::format("{} runs on in the background: {}", name_of(mark), what),
               "start the engine so that it stays in the foreground");
}

/// The children of a served process that compute on its weights.
std::vector<Finding> children(const Marks& marks) {
  struct Family {
    size_t children = 0;
    uint64_t touched_bytes = 0;
  };
  std::map<int32_t, Family> families;
  for (const Mark* mark : marks.last_of_each({MarkKind::forked})) {
    if (mark->amount == 0) continue;
    if (marks.last(MarkKind::child_started, mark->process_id)) continue;
    const Mark* const end = marks.last(MarkKind::child_touched, mark->process_id);
    if (end != nullptr && end->amount < touched_bytes_small) continue;
    Family& family = families[static_cast<int32_t>(mark->amount)];
    family.children++;
    if (end != nullptr) family.touched_bytes += end->amount;
  }
  std::vector<Finding> found;
  for (const auto& [parent_id, family] : families) {
    const Mark* const parent = marks.last(MarkKind::loaded, parent_id);
    const std::string touched =
        family.touched_bytes == 0
            ? ""
            : fmt::format(", and touched about {} of them", format_size(family.touched_bytes));
    found.push_back({"forked_children", parent_id, parent == nullptr ? "" : parent->command,
                     fmt::format("{} forked {} the weights outside the window{}", family.children,
                                 family.children == 1 ? "child had" : "children had", touched),
                     serve_cure});
  }
  return found;
}

bool is_running(const Mark& mark) {
  return mark.pid_namespace != 0 && mark.pid_namespace == pid_namespace() && mark.process_id > 0 &&
         start_ticks(mark.process_id) != 0;
}

}  // namespace

Surroundings this_machine(SpillScope spilling, const std::string& spill_lack) {
  return {is_running, [](const std::string& program) { return program_behind(program.c_str()); },
          spilling, spill_lack};
}

std::vector<Mark> last_marks(const std::string& run_directory, const Surroundings& surroundings) {
  const auto count = [](const std::vector<Mark>& marks, MarkKind kind) {
    return std::count_if(marks.begin(), marks.end(),
                         [kind](const Mark& mark) { return mark.kind == kind; });
  };
  // Do not wait long for a child's mark, because the fork may have failed.
  const auto read = [&] {
    std::vector<Mark> marks = telemetry::read_marks(run_directory);
    for (int i = 0; i < 20 && count(marks, MarkKind::forking) > count(marks, MarkKind::forked);
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      marks = telemetry::read_marks(run_directory);
    }
    return marks;
  };
  std::vector<Mark> marks = read();
  // A process that is about to end does not count as one that runs on in the background.
  if (std::any_of(marks.begin(), marks.end(), surroundings.is_running)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    marks = read();
  }
  return marks;
}

std::vector<Finding> findings(const std::vector<Mark>& all,
                              const std::vector<const Telemetry*>& processes,
                              const std::string& engine, const Surroundings& surroundings) {
  const Marks marks(all);
  std::set<int32_t> served;
  for (const Telemetry* process : processes) served.insert(process->process_id);
  std::vector<Finding> found = children(marks);
  for (const Mark* mark : marks.last_of_each({MarkKind::mapped_plain}))
    found.push_back(plain_mapping(*mark));
  for (Finding& it : memory_not_served(marks)) found.push_back(std::move(it));
  if (surroundings.spilling == SpillScope::of_all) {
    for (Finding& it : memory_of_go(marks, processes, surroundings)) found.push_back(std::move(it));
  }
  std::map<int32_t, const Mark*> alive;
  for (const Mark* mark : marks.last_of_each({MarkKind::loaded, MarkKind::forked})) {
    if (surroundings.is_running(*mark)) alive[mark->process_id] = mark;
  }
  const auto add_running = [&] {
    for (const auto& [process_id, mark] : alive)
      found.push_back(running(*mark, served.contains(process_id)));
  };
  if (!served.empty()) {
    add_running();
    return found;
  }

  for (const Mark* mark : marks.last_of_each({MarkKind::opened})) {
    if (!alive.contains(mark->process_id)) found.push_back(unmapped(marks, *mark, surroundings));
  }
  const auto add_starts = [&](bool has_model) {
    for (auto mark = all.rbegin(); mark != all.rend(); ++mark) {
      if (!is_unloaded_start(*mark) || (mark->amount != 0) != has_model) continue;
      found.push_back(unloaded_start(*mark, surroundings));
      return;
    }
  };
  add_starts(true);
  add_running();
  for (const Mark* mark : marks.last_of_each({MarkKind::loaded})) {
    if (!surroundings.look_at(mark->subject).is_go) continue;
    found.push_back(about(*mark, "own_system_calls",
                          name_of(*mark) + " is a Go program, which calls the kernel itself",
                          "use an engine that maps its model by the C library's mmap"));
  }
  add_starts(false);
  if (marks.last_of_each({MarkKind::loaded}).empty())
    found.push_back(not_loaded(engine, surroundings));
  return found;
}

const Finding* finding_about(const std::vector<Finding>& findings, const Telemetry& process) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.process_id == process.process_id;
  });
  return found == findings.end() ? nullptr : &*found;
}

}  // namespace weightpager::tools
