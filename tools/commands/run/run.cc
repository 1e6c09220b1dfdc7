#include "tools/commands/run/run.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "pager/attach/server.h"
#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/base/user_cache.h"
#include "pager/control/client.h"
#include "pager/fault/userfaultfd.h"
#include "pager/model/model.h"
#include "pager/model/recognise.h"
#include "pager/window/address_space.h"
#include "pager/window/backing_memory.h"
#include "tools/arguments/http_option.h"
#include "tools/arguments/mirror_option.h"
#include "tools/arguments/model_arguments.h"
#include "tools/arguments/window_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/run/access_profiles.h"
#include "tools/commands/run/engine_file.h"
#include "tools/commands/run/engine_process.h"
#include "tools/commands/run/record.h"
#include "tools/commands/run/report_json.h"
#include "tools/commands/run/run_directory.h"
#include "tools/commands/run/spill_choice.h"
#include "tools/commands/run/summary.h"
#include "tools/live/server_socket.h"
#include "tools/probes/userfaultfd_access.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {
namespace {

// The exit statuses of env(1), timeout(1) and nohup(1).
constexpr int exit_own_failure = 125;
constexpr int exit_not_executable = 126;
constexpr int exit_not_found = 127;

const char* const run_example = "weightpager run --window 1GiB -- llama-cli -m model.gguf";

std::vector<std::string> live_policies() {
  std::vector<std::string> names{std::string(policy::adaptive_policy)};
  for (const policy::NamedPolicy& it : policy::named_policies()) {
    if (!it.needs_future) names.emplace_back(it.name);
  }
  return names;
}

}  // namespace

Command run_description() {
  Command command;
  command.name = "weightpager run";
  command.purpose = "Runs an engine with its model in a window of memory.\n";
  command.usage =
      "  weightpager run --window SIZE [OPTIONS] -- ENGINE [ARGUMENTS]\n"
      "  weightpager run --attach NAME [OPTIONS] -- ENGINE [ARGUMENTS]\n";
  command.options = {
      {'w', "window", "SIZE",
       "memory for the model's weights: 1GiB, 512MiB, or a\n"
       "share of the model: 25%"},
      {'a', "attach", "NAME", "share the window of `weightpager serve --name NAME`"},
      {'m', "match", "GLOB",
       fmt::format("page these files too; may be given several times;\n"
                   "{}\nare paged anyway",
                   fmt::join(model_patterns({}), ", "))},
      {0,
       "mapper",
       "NAME",
       "how chunks get into place: auto (default), move,\ncollapse, copy",
       {window::mapper_names.begin(), window::mapper_names.end()}},
      {0, "policy", "NAME",
       "what to read ahead, keep and evict: auto (default)\n"
       "begins with expert and changes to a policy that serves\n"
       "better; `weightpager bench policies --help` lists all\n"
       "policies. What they learn of the engine's order and\n"
       "pace is kept for the next run, in\n"
       "~/.cache/weightpager/learned-*.json",
       live_policies()},
      {0, "json", "FILE", "write the run's numbers to FILE"},
      {0, "record", "FILE",
       "write the engine's touches to FILE, as a trace for\n"
       "`weightpager bench policies`; slows the engine a little"},
      {0, "spill", "DIR",
       "serve the engine's own large memory, too: weights that\n"
       "it reads, converts or repacks. What does not fit into\n"
       "the window goes to a file in DIR, which vanishes with\n"
       "the run. Without this option, memory of engines that\n"
       "read their model instead of mapping it is served, with\n"
       "a file in $TMPDIR or /var/tmp"},
      {0, "no-spill", "", "serve mapped models only"},
      {0, "keep-copies", "DIR",
       "with --spill: keep what is written, in DIR, a folder of\n"
       "this user's own, for the next run, which does not write\n"
       "what it finds there"},
      mirror_option(),
      http_option(),
      {'q', "quiet", "", "print no summary and no notices"},
      {0, "no-profile", "",
       "do not adapt to known engines (ggml: no repacked copy\n"
       "of the weights)"},
  };
  command.examples =
      "  weightpager run --window 1GiB -- llama-cli -m model.gguf -p Hello\n"
      "  weightpager run --window 25% --json run.json -- python3 generate.py model/\n"
      "  weightpager run -w 1GiB -m '*.weights' -- darknet detect net.cfg net.weights\n";
  command.environment =
      "  LD_PRELOAD            kept for the engine, behind weightpager's own library\n"
      "  XDG_RUNTIME_DIR, TMPDIR\n"
      "                        where a run keeps its counters, and, in TMPDIR, what is\n"
      "                        spilled of an engine that reads its model\n"
      "  XDG_CACHE_HOME, HOME  where learned access profiles and checksums are kept\n";
  command.exit_status =
      "  125  weightpager failed or was called wrongly; the engine did not start\n"
      "  126  the engine cannot be executed\n"
      "  127  the engine was not found\n"
      "  otherwise the engine's; a signal that killed the engine kills weightpager, too\n";
  command.operands = Operands::engine;
  return command;
}

namespace {

/// weightpager's own arguments and, after `--`, the engine's. They are split before they are
/// parsed, because weightpager does not understand the engine's arguments.
struct SplitArguments {
  std::vector<std::string> own;
  std::vector<std::string> engine;
};

Result<SplitArguments> split_arguments(const Command& command,
                                       const std::vector<std::string>& arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  if (separator != arguments.end()) {
    return SplitArguments{{arguments.begin(), separator}, {separator + 1, arguments.end()}};
  }
  const auto engine =
      arguments.begin() + static_cast<std::ptrdiff_t>(first_operand(command, arguments));
  SplitArguments split{{arguments.begin(), engine}, {}};
  if (engine == arguments.end()) return split;

  // If only the separator is missing, the hint is the whole corrected line.
  if (auto own = parse_arguments(command, split.own); !own) return forward_error(std::move(own));
  std::vector<std::string> corrected = {"weightpager", "run"};
  corrected.insert(corrected.end(), split.own.begin(), split.own.end());
  corrected.emplace_back("--");
  corrected.insert(corrected.end(), engine, arguments.end());
  return fail(fmt::format("`--` is missing before the engine, {}", *engine), shell_line(corrected));
}

Status check_mapper(const std::string& mapper) {
  if (window::is_mapper_name(mapper)) return {};
  const std::vector<std::string> known(window::mapper_names.begin(), window::mapper_names.end());
  const std::string meant = nearest(mapper, known);
  const std::string all = fmt::format("there are {}", fmt::join(known, ", "));
  return fail(fmt::format("--mapper {}: unknown mapper", mapper),
              meant.empty() ? all : fmt::format("did you mean {}? {}", meant, all));
}

Status check_live_policy(const std::string& name) {
  auto known = policy::check_policy(name, true);
  if (known) return {};
  Error error = known.error();
  error.message = "--policy: " + error.message;
  const std::string meant = nearest(name, live_policies());
  if (!meant.empty() && meant != name)
    error.hint = fmt::format("did you mean {}? {}", meant, error.hint);
  return tl::make_unexpected(std::move(error));
}

/// All globs are passed in one variable, separated by colons.
Status check_match(const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    if (glob.empty() || glob.find(':') != std::string::npos) {
      return fail(fmt::format("--match '{}': a glob is not empty and has no colon", glob),
                  "put ? in the colon's place: it stands for any character");
    }
    const size_t brace = glob.find('{');
    const bool has_choice = brace != std::string::npos && glob.find(',', brace) < glob.rfind('}') &&
                            glob.rfind('}') != std::string::npos;
    if (has_choice) {
      return fail(fmt::format("--match '{}': a glob has no choices in braces", glob),
                  "give --match once for each, or ? in the comma's place if it is a file's name");
    }
  }
  return {};
}

SpillScope spilling_of(const Arguments& arguments) {
  if (arguments.has("spill")) return SpillScope::of_all;
  return arguments.has("no-spill") || arguments.has("attach") ? SpillScope::none
                                                              : SpillScope::of_readers;
}

Result<RunOptions> read_run_options(const Arguments& arguments, std::vector<std::string> engine) {
  if (!arguments.operands().empty()) {
    return fail(fmt::format("unexpected argument {}", arguments.operands().front()),
                fmt::format("the engine stands behind `--`: {}", run_example));
  }
  if (engine.empty()) return fail("no engine to run", run_example);
  if (!arguments.has("window") && !arguments.has("attach")) {
    return fail("--window is missing", run_example);
  }
  for (const char* own :
       {"window", "mapper", "policy", "record", "spill", "keep-copies", "mirror", "http"}) {
    if (!arguments.has("attach") || !arguments.has(own)) continue;
    return fail(fmt::format("--attach and --{} exclude each other", own),
                "the window is the server's: `weightpager serve --help`");
  }
  RunOptions options;
  options.window = arguments.value("window").value_or("");
  options.attach = arguments.value("attach").value_or("");
  options.match = arguments.values("match");
  options.mapper = arguments.value("mapper").value_or("auto");
  options.policy = arguments.value("policy").value_or(options.policy);
  options.json_path = arguments.value("json").value_or("");
  options.record_path = arguments.value("record").value_or("");
  options.http_port = arguments.value("http").value_or("");
  options.spill_folder = arguments.value("spill").value_or("");
  if (!options.spill_folder.empty() && arguments.has("no-spill")) {
    return fail("--spill and --no-spill exclude each other", "leave one of them out");
  }
  options.spilling = spilling_of(arguments);
  options.kept_folder = arguments.value("keep-copies").value_or("");
  if (!options.kept_folder.empty() && options.spill_folder.empty()) {
    return fail("--keep-copies needs --spill",
                "name a folder for what need not be kept, too: --spill DIR");
  }
  options.quiet = arguments.has("quiet");
  options.profile = !arguments.has("no-profile");
  options.engine = std::move(engine);
  if (auto mapper = check_mapper(options.mapper); !mapper) return forward_error(std::move(mapper));
  if (auto known = check_live_policy(options.policy); !known)
    return forward_error(std::move(known));
  if (auto match = check_match(options.match); !match) return forward_error(std::move(match));
  if (auto port = parse_http_port(arguments); !port) return forward_error(std::move(port));
  auto mirrors = parse_mirrors(arguments);
  if (!mirrors) return forward_error(std::move(mirrors));
  options.mirrors = std::move(*mirrors);
  return options;
}

/// A run that has been checked completely. Its temporary files are removed with the object.
struct RunPlan {
  RunReport report;
  std::string engine;
  std::string interposer;
  std::string server_socket;  // "" for a window of the run's own
  std::vector<std::string> globs;
  std::vector<model::FileId> files;  // files that are models, whatever their names are
  std::string copies;                // the list of checked copies, "" without --mirror
  RunDirectory directory;
  std::optional<ReportFile> json;
  std::optional<ReportFile> record;
};

std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : std::string(1, separator)) + part;
  return text;
}

/// The variables that the interposer reads. Those that this run does not use are removed, so that
/// an enclosing run does not influence it.
Environment engine_environment(const RunPlan& plan) {
  const RunOptions& options = plan.report.options;
  const std::string& server_socket = plan.server_socket;
  const std::string& interposer = plan.interposer;
  const char* const preload = getenv("LD_PRELOAD");
  const auto only_if = [](bool condition, std::string value) {
    return condition ? std::optional(std::move(value)) : std::nullopt;
  };
  return {
      {"LD_PRELOAD", preload && *preload ? interposer + ":" + preload : interposer},
      {"WEIGHTPAGER_WINDOW",
       only_if(server_socket.empty(), std::to_string(plan.report.window_bytes))},
      {"WEIGHTPAGER_ATTACH", only_if(!server_socket.empty(), server_socket)},
      {"WEIGHTPAGER_MATCH", only_if(!plan.globs.empty(), joined(plan.globs, ':'))},
      {"WEIGHTPAGER_FILES", only_if(!plan.files.empty(), model::format_file_ids(plan.files))},
      {"WEIGHTPAGER_MAPPER", only_if(options.mapper != "auto", options.mapper)},
      {"WEIGHTPAGER_POLICY", only_if(options.policy != policy::adaptive_policy, options.policy)},
      {"WEIGHTPAGER_PROFILE", only_if(!options.profile, "0")},
      {"WEIGHTPAGER_SPILL", only_if(options.spilling != SpillScope::none, options.spill_folder)},
      {"WEIGHTPAGER_SPILL_FOR",
       only_if(options.spilling == SpillScope::of_readers, name_of(options.spilling))},
      {"WEIGHTPAGER_KEEP_COPIES", only_if(!options.kept_folder.empty(), options.kept_folder)},
      {"WEIGHTPAGER_MIRRORS", only_if(!plan.copies.empty(), plan.copies)},
      {"WEIGHTPAGER_QUIET", only_if(options.quiet, "1")},
      {"WEIGHTPAGER_HTTP", only_if(!options.http_port.empty(), options.http_port)},
      {"WEIGHTPAGER_RECORD", only_if(!options.record_path.empty(), "1")},
      {"WEIGHTPAGER_ACCESS_PROFILES",
       only_if(options.attach.empty() && !user_cache_directory().empty(), user_cache_directory())},
      {"WEIGHTPAGER_RUN_DIR", plan.directory.path()},
  };
}

int refuse(const Error& error, int exit_status = exit_own_failure) {
  print_error(error);
  return exit_status;
}

int exit_status_of_exec(const Error& error) {
  return error.error_number == ENOENT ? exit_not_found : exit_not_executable;
}

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

/// The user's globs as absolute paths, because the engine may change its directory.
std::vector<std::string> absolute_globs(const std::vector<std::string>& match) {
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  std::vector<std::string> globs;
  for (const std::string& glob : match) globs.push_back(model::absolute_glob(glob, here));
  return globs;
}

/// Checks the model files among the engine's arguments, and returns the window in bytes; 0 if the
/// window is a server's.
Result<uint64_t> check_memory(const RunOptions& options, const std::vector<std::string>& files,
                              const MemoryLimit& limit) {
  const auto model_bytes = check_models(files);
  if (!model_bytes) return model_bytes;
  if (!options.attach.empty()) return 0;
  return parse_window(options.window, *model_bytes, limit);
}

/// The socket of the server to attach to; "" without --attach. Adds the files that the server
/// serves to `files`.
Result<std::string> check_server(const RunOptions& options, std::vector<model::FileId>& files) {
  if (options.attach.empty()) return "";
  auto socket = server_socket(options.attach);
  if (!socket) return socket;
  auto served = attach::served_files(*socket);
  if (served) {
    files.insert(files.end(), served->begin(), served->end());
    return socket;
  }
  if (attach::is_served(*socket)) return forward_error(std::move(served));
  return fail(fmt::format("--attach {}: no such server is running", options.attach),
              fmt::format("start it: weightpager serve MODEL --window SIZE --name {}",
                          shell_line({options.attach})));
}

/// Tries the mapper that was asked for, in the way that the engine will try it.
Status check_mapper_works(const std::string& name) {
  if (name == "auto") return {};
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return forward_error(std::move(uffd));
  window::AddressSpace own(std::move(*uffd));
  auto mapper = window::choose_mapper(name, own, chunk_bytes_max);
  return mapper ? Status() : forward_error(std::move(mapper));
}

/// Checks the mirrors and leaves the list of what they have for the pagers; "" without mirrors.
Result<std::string> leave_copies(const RunOptions& options, const std::vector<std::string>& models,
                                 const RunDirectory& directory) {
  if (options.mirrors.empty()) return "";
  const auto copies = check_mirrors(options.mirrors, models);
  if (!copies) return tl::make_unexpected(copies.error());
  return directory.leave("mirrors", io::format_copies(*copies));
}

Result<RunPlan> make_plan(RunOptions options, const std::string& engine) {
  if (auto chosen = choose_spilling(options); !chosen) return forward_error(std::move(chosen));
  RunReport report{options, 0, memory_limit(), {}, 0, 0, {}, {}};
  auto globs = absolute_globs(options.match);
  const auto models = find_model_files(options.engine, globs);
  choose_profile(report.options, models);
  auto window_bytes = check_memory(options, models, report.memory_limit);
  if (!window_bytes) return forward_error(std::move(window_bytes));
  report.window_bytes = *window_bytes;
  auto files = ids_of(models);
  auto server = check_server(options, files);
  if (!server) return forward_error(std::move(server));
  if (auto open = check_userfaultfd(probe_userfaultfd()); !open)
    return forward_error(std::move(open));
  if (auto works = check_mapper_works(options.mapper); !works)
    return forward_error(std::move(works));
  if (auto fit = check_preloadable(engine, options.engine, !models.empty()); !fit)
    return forward_error(std::move(fit));
  auto interposer = find_interposer();
  if (!interposer) return forward_error(std::move(interposer));
  control::sweep_sockets();
  auto directory = RunDirectory::create();
  if (!directory) return forward_error(std::move(directory));
  auto copies = leave_copies(options, models, *directory);
  if (!copies) return forward_error(std::move(copies));
  RunPlan plan{std::move(report), engine,           *interposer,        std::move(*server),
               std::move(globs),  std::move(files), std::move(*copies), std::move(*directory),
               std::nullopt,      std::nullopt};
  if (!options.json_path.empty()) {
    auto json = ReportFile::create(options.json_path);
    if (!json) return forward_error(std::move(json));
    plan.json.emplace(std::move(*json));
  }
  if (!options.record_path.empty()) {
    auto record = ReportFile::create(options.record_path, "--record");
    if (!record) return forward_error(std::move(record));
    plan.record.emplace(std::move(*record));
  }
  return plan;
}

/// What the largest process of the engine's had in memory at most, by the kernel's account.
uint64_t largest_child_bytes() {
  rusage used{};
  return getrusage(RUSAGE_CHILDREN, &used) == 0 ? static_cast<uint64_t>(used.ru_maxrss) * KiB : 0;
}

/// Runs the engine and reports on it. Fails only if the engine did not start.
Result<EngineExit> carry_out(RunPlan plan) {
  RunReport& report = plan.report;
  const uint64_t started_ns = now_ns();
  const auto ended = run_engine(plan.engine, report.options.engine, engine_environment(plan));
  if (!ended) return ended;
  report.elapsed_ns = now_ns() - started_ns;
  report.exit = *ended;
  report.processes = plan.directory.paged_processes();
  report.largest_process_bytes = largest_child_bytes();
  const Surroundings here = this_machine(report.options.spilling, report.options.spill_lack);
  report.findings =
      findings(last_marks(plan.directory.path(), here), report.processes, plan.engine, here);
  if (!report.options.quiet) print(stderr, summary_text(report));
  if (plan.json) {
    // The engine's work is done: its exit status counts, even if the report cannot be written.
    if (auto written = plan.json->commit(report_json(report)); !written)
      print_error(written.error());
  }
  keep_access_profiles(plan.directory.path(), user_cache_directory());
  if (plan.record) {
    if (auto kept = keep_record(plan.directory.path(), *plan.record); !kept)
      print_error(kept.error());
  }
  return ended;
}

/// Returns only if the engine did not start.
int run(const RunOptions& options) {
  set_quiet(options.quiet);
  const auto engine = find_engine(options.engine.front());
  if (!engine) return refuse(engine.error(), exit_status_of_exec(engine.error()));
  auto plan = make_plan(options, *engine);
  if (!plan) return refuse(plan.error());
  const auto ended = carry_out(std::move(*plan));
  if (!ended) return refuse(ended.error(), exit_status_of_exec(ended.error()));
  end_like(*ended);
}

}  // namespace

int run_command(const std::vector<std::string>& words) {
  const Command command = run_description();
  auto split = split_arguments(command, words);
  if (!split) return refuse(split.error());
  const auto own = parse_arguments(command, split->own);
  if (!own) return refuse(own.error());
  if (own->has("help")) {
    print(stdout, help_text(command));
    return exit_success;
  }
  const auto options = read_run_options(*own, std::move(split->engine));
  if (!options) return refuse(options.error());
  return run(*options);
}

}  // namespace weightpager::tools
