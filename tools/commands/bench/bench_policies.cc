// `weightpager bench policies`: finds the policy that is best for a model, a disk and an amount of
// memory, and its distance from the bound; on this machine, or on one that is not at hand.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "pager/base/median.h"
#include "pager/base/memory_limit.h"
#include "pager/base/units.h"
#include "pager/simulate/make_trace.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/window_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/bench/bench.h"
#include "tools/commands/bench/policy_comparison.h"
#include "tools/commands/bench/policy_report.h"
#include "tools/commands/trace/made_trace.h"
#include "tools/formats/disk_file.h"
#include "tools/formats/trace_file.h"
#include "tools/probes/disk_beside.h"
#include "tools/probes/handling_probe.h"
#include "tools/probes/live_policy.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {
namespace {

using simulate::Trace;

constexpr uint32_t passes_max = 10'000;
constexpr uint32_t repeats_max = 1000;
constexpr uint32_t threads_max = 1024;
constexpr uint32_t warm_up_passes_default = 4;
// Other processes may read this share of a run's own bytes from the disk while it is measured.
constexpr double others_share_max = 0.05;
// A run is measured again if the disk changed meanwhile.
constexpr int live_tries_max = 3;

std::string policies_text() {
  std::string text = "names with commas between them, or all (all):";
  for (const policy::NamedPolicy& it : policy::named_policies()) {
    text += fmt::format("\n{:<14} {}", it.name, it.description);
  }
  return text;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names = {"all"};
  for (const policy::NamedPolicy& it : policy::named_policies()) names.emplace_back(it.name);
  return names;
}

}  // namespace

Command bench_policies_description() {
  return {
      .name = "weightpager bench policies",
      .purpose =
          "Compares policies for reading ahead, keeping and evicting: the time of a pass and\n"
          "the bytes that it reads, and the least that is possible.\n",
      .usage = "  weightpager bench policies MODEL|TRACE [OPTIONS]\n",
      .options = {{'w', "window", "SIZE,…", "windows, or shares of the model (10%,25%,50%)"},
                  {0, "policy", "NAME,…", policies_text(), policy_names()},
                  {0, "simulate", "", "simulate only (the default without --live)"},
                  {0, "live", "", "run the real pager on the real file, beside the simulation"},
                  {0, "disk", "NAME",
                   "the simulated disk: nvme-gen4 (the default; with --live it is\n"
                   "the model's own disk, measured again and again), nvme-gen5,\n"
                   "sata, emmc, a speed (3.5GB/s), or a file of `bench disk`"},
                  {0, "passes", "N", "passes over a MODEL's layers (12)"},
                  {0, "warm-up", "N", "passes that are not counted (4, at most half)"},
                  {0, "repeats", "N",
                   "repeats of each live run, in turns; the middle one counts (1)"},
                  {0, "compute", "GB/S", "the speed of computing through a MODEL's weights (20)"},
                  {0, "threads", "N", "threads that work through each matrix of a MODEL (1)"},
                  {0, "zipf", "X", "routing of a MODEL's experts: 0.01 nearly even (1)"},
                  {0, "seed", "N", "another seed, other routing and jitter (1)"},
                  {0, "json", "FILE", "write all figures to FILE"},
                  {0, "csv", "FILE", "write a table to FILE"},
                  {0, "html", "FILE", "write a report with plots to FILE"}},
      .examples =
          "  weightpager bench policies model.gguf --window 25%,50% --html report.html\n"
          "  weightpager bench disk model.gguf --json disk.json\n"
          "  weightpager bench policies model.gguf --disk disk.json\n"
          "  weightpager bench policies model.gguf --live --passes 16\n"
          "  weightpager bench policies moe.trace --policy lru,expert,belady --disk sata\n",
      .exit_status = "  0 done, 1 something failed, 2 misuse\n"};
}

namespace {

struct PoliciesOptions {
  std::string path;
  bool is_live = false;
  std::vector<std::string> policies;
  /// nullopt for live runs: then it is measured.
  std::optional<Machine> machine;
  simulate::Workload workload;
  std::optional<uint32_t> warm_up_passes;
  uint32_t repeats = 1;
};

/// The trace that the policies are compared on; for a model, the trace that was made from it.
struct Subject {
  Trace trace;
  std::optional<model::Model> model;
};

Result<std::vector<std::string>> read_policies(const std::string& text) {
  std::vector<std::string> names;
  if (text == "all") {
    for (const policy::NamedPolicy& it : policy::named_policies()) names.emplace_back(it.name);
    return names;
  }
  for (std::string& name : split_at(text, ',')) {
    const bool is_compared_already = std::find(names.begin(), names.end(), name) != names.end();
    if (is_compared_already) return fail(fmt::format("--policy: {} is there twice", name));
    if (auto known = policy::check_policy(name, false); !known) {
      return forward_error(std::move(known));
    }
    names.push_back(std::move(name));
  }
  return names;
}

Result<PoliciesOptions> read_policies_options(const Arguments& arguments) {
  if (arguments.operands().size() != 1) {
    return fail("expected one model or trace", "weightpager bench policies model.gguf");
  }
  PoliciesOptions options{.path = arguments.operands().front(), .is_live = arguments.has("live")};
  auto policies = read_policies(arguments.value("policy").value_or("all"));
  if (!policies) return forward_error(std::move(policies));
  options.policies = std::move(*policies);
  if (!options.is_live || arguments.has("disk")) {
    auto machine = read_machine(arguments.value("disk").value_or("nvme-gen4"));
    if (!machine) return forward_error(std::move(machine));
    options.machine = std::move(*machine);
  }

  const auto passes = parse_count(arguments.value("passes").value_or("12"), "--passes", passes_max);
  if (!passes) return tl::make_unexpected(passes.error());
  options.workload.passes = *passes;
  if (const auto given = arguments.value("warm-up")) {
    const auto warm_up = parse_count(*given, "--warm-up", passes_max);
    if (!warm_up) return tl::make_unexpected(warm_up.error());
    options.warm_up_passes = *warm_up;
  }
  const auto repeats =
      parse_count(arguments.value("repeats").value_or("1"), "--repeats", repeats_max);
  if (!repeats) return tl::make_unexpected(repeats.error());
  options.repeats = *repeats;
  const auto seed = parse_count(arguments.value("seed").value_or("1"), "--seed", UINT32_MAX);
  if (!seed) return tl::make_unexpected(seed.error());
  options.workload.seed = *seed;
  const auto threads =
      parse_count(arguments.value("threads").value_or("1"), "--threads", threads_max);
  if (!threads) return tl::make_unexpected(threads.error());
  options.workload.threads = *threads;
  const auto compute =
      parse_number(arguments.value("compute").value_or("20"), "--compute", bandwidths_gb_per_s);
  if (!compute) return tl::make_unexpected(compute.error());
  const auto zipf = parse_number(arguments.value("zipf").value_or("1"), "--zipf", zipf_exponents);
  if (!zipf) return tl::make_unexpected(zipf.error());
  options.workload.compute_bytes_per_s = *compute * 1e9;
  options.workload.zipf_exponent = *zipf;
  return options;
}

Result<Subject> read_subject(const PoliciesOptions& options) {
  Subject subject;
  if (is_trace_file(options.path)) {
    if (options.is_live) {
      return fail(fmt::format("--live: {} is a trace, which has no weights to page", options.path),
                  "give the model itself, or leave --live out");
    }
    auto trace = read_trace(options.path);
    if (!trace) return forward_error(std::move(trace));
    subject.trace = std::move(*trace);
    return subject;
  }
  auto model = model::open_model(options.path);
  if (!model) return forward_error(std::move(model));
  if (options.is_live && model->files.size() > 1) {
    return fail(fmt::format("--live: the model has {} files, expected one", model->files.size()),
                "leave --live out, or take a model in one file");
  }
  auto trace = make_trace_in_memory(*model, options.workload, options.path);
  if (!trace) return forward_error(std::move(trace));
  subject.trace = std::move(*trace);
  if (options.is_live) subject.trace = in_naps(std::move(subject.trace));
  subject.model = std::move(*model);
  return subject;
}

/// The policies that can be told all that they need to know of the trace.
Result<std::vector<std::string>> policies_for(const Trace& trace, const PoliciesOptions& options,
                                              bool are_all) {
  if (trace.threads == 1) return options.policies;
  std::vector<std::string> names;
  for (const std::string& name : options.policies) {
    auto known = policy::check_policy(name, true);
    if (!known && !are_all) return forward_error(std::move(known));
    if (known) names.push_back(name);
  }
  return names;
}

Result<std::vector<uint32_t>> read_windows(const std::string& text, const Trace& trace,
                                           bool is_live) {
  const WindowGrain grain{.bytes_min = std::max(simulate::window_chunks_min * trace.chunk_bytes,
                                                is_live ? window_bytes_min : 0),
                          .step_bytes = trace.chunk_bytes};
  const MemoryLimit limit = is_live ? memory_limit() : MemoryLimit{UINT64_MAX, "a simulation"};
  std::vector<uint32_t> windows;
  for (const std::string& word : split_at(text, ',')) {
    const auto bytes = parse_window(word, trace.model_bytes(), limit, grain);
    if (!bytes) return tl::make_unexpected(bytes.error());
    const auto chunks = static_cast<uint32_t>(
        std::min<uint64_t>(*bytes / trace.chunk_bytes, uint64_t{trace.chunks} * 2 + 64));
    windows.push_back(chunks);
  }
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

Result<size_t> choose_warm_up(const PoliciesOptions& options, const Trace& trace) {
  const size_t passes = trace.pass_begins.size();
  const size_t warm_up =
      options.warm_up_passes.value_or(std::min<size_t>(warm_up_passes_default, passes / 2));
  if (warm_up < passes) return warm_up;
  return fail(fmt::format("--warm-up {}: there are {} passes", warm_up, passes),
              "give fewer, or more --passes");
}

struct LiveFigures {
  /// Figures of passes during which the disk stayed the same; nullopt if there were no such passes.
  std::optional<PassFigures> live;
  /// The same passes, simulated, if the disk was probed beside them.
  std::optional<PassFigures> simulated;
  bool has_company = false;
};

Result<LiveFigures> measure_live(const Subject& subject, const PoliciesOptions& options,
                                 DiskProbe* probe, const PolicyComparison& comparison,
                                 const std::string& policy, uint64_t window_bytes) {
  LiveOptions live_options;
  live_options.policy = policy;
  live_options.window_bytes = window_bytes;
  DiskBeside beside(probe, comparison.warm_up_passes, subject.trace);
  if (probe != nullptr) live_options.between_passes = [&](size_t pass) { beside.look(pass); };
  const auto run = run_live(*subject.model, subject.trace, live_options);
  if (!run) return tl::make_unexpected(run.error());

  LiveFigures figures;
  figures.has_company = static_cast<double>(run->device_read_bytes) >
                        static_cast<double>(run->own_read_bytes) * (1 + others_share_max);
  if (probe == nullptr) {
    figures.live = figures_of(run->passes, comparison.warm_up_passes, comparison.chunk_bytes);
    return figures;
  }
  simulate::SimulatorOptions paper;
  paper.policy = policy;
  paper.window_chunks = static_cast<uint32_t>(window_bytes / comparison.chunk_bytes);
  paper.handling = comparison.machine.handling;
  paper.seed = options.workload.seed;
  const auto simulated = beside.simulate(paper);
  if (!simulated) return tl::make_unexpected(simulated.error());
  if (simulated->empty()) return figures;
  figures.simulated = figures_of(*simulated, 0, comparison.chunk_bytes);
  figures.live = figures_of(beside.counted(run->passes), 0, comparison.chunk_bytes);
  return figures;
}

/// Measures again while the disk changes.
Result<LiveFigures> measure_steadily(const Subject& subject, const PoliciesOptions& options,
                                     DiskProbe* probe, const PolicyComparison& comparison,
                                     const std::string& policy, uint64_t window_bytes) {
  Result<LiveFigures> measured = LiveFigures{};
  for (int tries = 0; !measured->live && tries < live_tries_max; ++tries) {
    print(stderr, fmt::format("live: {} in {}{}\n", policy, format_size(window_bytes),
                              tries > 0 ? ", again: the disk changed" : ""));
    measured = measure_live(subject, options, probe, comparison, policy, window_bytes);
    if (!measured) return measured;
  }
  return measured;
}

/// The run in the middle, by the time of a pass (for an even number the slower one), with the
/// shortest and the longest pass of all runs.
LiveFigures middle_one(std::vector<LiveFigures> repeats) {
  uint64_t shortest_ns = UINT64_MAX;
  uint64_t longest_ns = 0;
  std::vector<uint64_t> times_ns;
  for (const LiveFigures& it : repeats) {
    times_ns.push_back(it.live->median_ns);
    shortest_ns = std::min(shortest_ns, it.live->shortest_ns);
    longest_ns = std::max(longest_ns, it.live->longest_ns);
  }
  const uint64_t middle_ns = median(std::move(times_ns));
  LiveFigures& middle = *std::find_if(repeats.begin(), repeats.end(), [&](const LiveFigures& it) {
    return it.live->median_ns == middle_ns;
  });
  middle.live->shortest_ns = shortest_ns;
  middle.live->longest_ns = longest_ns;
  return std::move(middle);
}

/// Adds live figures to each run of a policy that can run live. With a probe, the simulation beside
/// them is repeated with the disk as it was during the run.
Status measure_live(const Subject& subject, const PoliciesOptions& options, DiskProbe* probe,
                    PolicyComparison& comparison) {
  bool has_company = false;
  comparison.repeats = options.repeats;
  for (WindowRuns& window : comparison.windows) {
    std::map<std::string, std::vector<LiveFigures>> repeats;
    for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
      for (const PolicyRun& run : window.runs) {
        if (!policy::check_policy(run.policy, true)) continue;
        auto measured =
            measure_steadily(subject, options, probe, comparison, run.policy, window.window_bytes);
        if (!measured) return tl::make_unexpected(measured.error());
        auto& live = repeats[run.policy];
        if (!measured->live) continue;
        has_company = has_company || measured->has_company;
        live.push_back(std::move(*measured));
      }
    }
    for (PolicyRun& run : window.runs) {
      const auto measured = repeats.find(run.policy);
      if (measured == repeats.end()) continue;
      if (measured->second.empty()) {
        comparison.remarks.push_back(fmt::format(
            "{} in {}: no live time, since the disk did not stay the same for two passes",
            run.policy, format_size(window.window_bytes)));
        continue;
      }
      LiveFigures middle = middle_one(std::move(measured->second));
      run.live = std::move(middle.live);
      if (middle.simulated) run.simulated = std::move(middle.simulated);
    }
  }
  if (has_company) {
    comparison.remarks.push_back(
        "another process read from the disk meanwhile: these times are not comparable");
  }
  return {};
}

/// Measures the disk of the file at `path`, and the pager's work beside reading.
Result<Machine> measure_machine(const std::string& path, uint64_t chunk_bytes,
                                std::optional<DiskProbe>& probe) {
  auto opened = DiskProbe::open(path);
  if (!opened) return forward_error(std::move(opened));
  probe.emplace(std::move(*opened));
  auto handling = measure_handling(*probe);
  if (!handling) return forward_error(std::move(handling));
  const auto fitted = probe->fit(chunk_bytes);
  if (!fitted) return tl::make_unexpected(fitted.error());
  handling->request_ns = fitted->request_ns;
  return Machine{fitted->disk, *handling};
}

struct Reports {
  std::optional<ReportFile> json;
  std::optional<ReportFile> csv;
  std::optional<ReportFile> html;
};

Result<Reports> open_reports(const Arguments& arguments) {
  Reports reports;
  const std::pair<const char*, std::optional<ReportFile>*> all[] = {
      {"json", &reports.json}, {"csv", &reports.csv}, {"html", &reports.html}};
  for (const auto& [name, file] : all) {
    if (!arguments.has(name)) continue;
    auto created = ReportFile::create(*arguments.value(name), std::string("--") + name);
    if (!created) return forward_error(std::move(created));
    file->emplace(std::move(*created));
  }
  return reports;
}

Status write_reports(Reports& reports, const PolicyComparison& comparison) {
  if (reports.json) {
    if (auto done = reports.json->commit(comparison_json(comparison)); !done) return done;
  }
  if (reports.csv) {
    if (auto done = reports.csv->commit(comparison_csv(comparison)); !done) return done;
  }
  return reports.html ? reports.html->commit(comparison_html(comparison)) : Status{};
}

int compare(const Arguments& arguments, const PoliciesOptions& options) {
  const auto subject = read_subject(options);
  if (!subject) return failure(subject.error());
  const Trace& trace = subject->trace;
  const auto windows =
      read_windows(arguments.value("window").value_or("10%,25%,50%"), trace, options.is_live);
  if (!windows) return misuse(windows.error());
  const auto policies = policies_for(trace, options, !arguments.has("policy"));
  if (!policies) return misuse(policies.error());
  const auto warm_up = choose_warm_up(options, trace);
  if (!warm_up) return misuse(warm_up.error());
  auto reports = open_reports(arguments);
  if (!reports) return failure(reports.error());

  std::optional<DiskProbe> probe;
  Machine machine;
  if (options.machine) {
    machine = *options.machine;
  } else {
    auto measured = measure_machine(options.path, trace.chunk_bytes, probe);
    if (!measured) return failure(measured.error());
    machine = std::move(*measured);
  }
  PolicyComparison comparison =
      simulate_policies(trace, machine, *windows, *policies, *warm_up, options.workload.seed);
#ifndef NDEBUG
  comparison.remarks.push_back("this is a build for debugging: live times are not comparable");
#endif
  if (options.is_live) {
    if (auto measured = measure_live(*subject, options, probe ? &*probe : nullptr, comparison);
        !measured) {
      return failure(measured.error());
    }
  }
  print(stdout, comparison_text(comparison));
  if (auto written = write_reports(*reports, comparison); !written) return failure(written.error());
  return exit_success;
}

int compare_as_asked(const Arguments& arguments) {
  if (arguments.has("repeats") && !arguments.has("live")) {
    return misuse({"--repeats is for live runs: a simulation is the same each time",
                   "leave it out, or give --live"});
  }
  if (arguments.has("live") && arguments.has("simulate")) {
    return misuse({"--live simulates, too: --simulate is not needed", "leave one of them out"});
  }
  if (arguments.has("live") && arguments.has("threads")) {
    return misuse(
        {"--threads is for simulations: a live run has one thread", "leave one of them out"});
  }
  const auto options = read_policies_options(arguments);
  if (!options) return misuse(options.error());
  return compare(arguments, *options);
}

}  // namespace

int bench_policies_command(const std::vector<std::string>& words) {
  return carry_out(bench_policies_description(), words, compare_as_asked);
}

}  // namespace weightpager::tools
