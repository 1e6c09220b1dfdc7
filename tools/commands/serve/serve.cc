#include "tools/commands/serve/serve.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/attach/server.h"
#include "pager/base/log.h"
#include "pager/base/memory_limit.h"
#include "pager/base/units.h"
#include "pager/control/control_socket.h"
#include "pager/control/pager_answers.h"
#include "pager/io/model_file.h"
#include "pager/model/model.h"
#include "pager/policy/chunk_size.h"
#include "pager/telemetry/telemetry.h"
#include "tools/arguments/http_option.h"
#include "tools/arguments/mirror_option.h"
#include "tools/arguments/model_arguments.h"
#include "tools/arguments/window_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/run/report_json.h"
#include "tools/commands/run/summary.h"
#include "tools/commands/serve/serve_networks.h"
#include "tools/live/server_socket.h"
#include "tools/probes/userfaultfd_access.h"
#include "tools/report/report_file.h"
#include "tools/terminal/ending_signals.h"

namespace weightpager::tools {
namespace {

const char* const serve_example = "weightpager serve model.gguf --window 4GiB --name llama";

}  // namespace

Command serve_description() {
  Command command;
  command.name = "weightpager serve";
  command.purpose = "Serves a model to several engines from one window of memory.\n";
  command.usage =
      "  weightpager serve MODEL... --window SIZE --name NAME [OPTIONS]\n"
      "  weightpager run --attach NAME -- ENGINE [ARGUMENTS]\n"
      "  weightpager serve NET.cfg… --budget SIZE …   runs networks itself: see\n"
      "  weightpager serve NET.cfg --help\n";
  command.options = {
      {'w', "window", "SIZE",
       "memory for the models' weights, for all engines together:\n"
       "1GiB, 512MiB, or a share of the models: 25%"},
      {'n', "name", "NAME", "the name that engines attach to"},
      {0, "json", "FILE", "write the server's numbers to FILE at the end"},
      mirror_option(),
      http_option(),
      {'q', "quiet", "", "print no summary and no notices"},
  };
  command.examples =
      "  weightpager serve model.gguf --window 4GiB --name llama\n"
      "and, in other terminals, any number of\n"
      "  weightpager run --attach llama -- llama-cli -m model.gguf -p Hello\n";
  command.environment = "  XDG_RUNTIME_DIR       where the server's socket is, in weightpager/\n";
  command.exit_status =
      "  0  ended by SIGINT or SIGTERM\n"
      "  1  it could not serve\n"
      "  2  it was called wrongly\n";
  command.other_form = serve_networks_description;
  return command;
}

namespace {

struct ServeOptions {
  RunOptions common;  // window, json_path, quiet
  std::string name;
  std::optional<uint16_t> http_port;
  std::vector<std::string> models;
};

Result<ServeOptions> read_serve_options(const Arguments& arguments) {
  if (arguments.operands().empty()) return fail("no model to serve", serve_example);
  if (!arguments.has("window")) return fail("--window is missing", serve_example);
  if (!arguments.has("name")) return fail("--name is missing", serve_example);
  ServeOptions options;
  options.common.window = *arguments.value("window");
  options.common.mapper = window::shared_mapper_name();
  options.common.json_path = arguments.value("json").value_or("");
  options.common.quiet = arguments.has("quiet");
  options.name = *arguments.value("name");
  const auto http_port = parse_http_port(arguments);
  if (!http_port) return tl::make_unexpected(http_port.error());
  options.http_port = *http_port;
  auto mirrors = parse_mirrors(arguments);
  if (!mirrors) return forward_error(std::move(mirrors));
  options.common.mirrors = std::move(*mirrors);
  options.models = arguments.operands();
  return options;
}

/// The files to serve. A shard brings its siblings along.
struct Served {
  std::vector<model::File> files;
  /// The smallest chunk size that any of the models asks for.
  uint64_t chunk_bytes = chunk_bytes_max;
  std::vector<io::CheckedCopy> copies;
};

Result<Served> models_named(const std::vector<std::string>& names) {
  Served served;
  for (const std::string& name : names) {
    std::error_code ignored;
    std::vector<std::string> paths = {name};
    if (std::filesystem::is_directory(name, ignored)) paths = find_model_files({name}, {});
    if (paths.empty()) {
      return fail(fmt::format("{}: no model in this directory", name),
                  "name the model's files themselves");
    }
    for (const std::string& path : paths) {
      auto model = model::open_model_to_page(path);
      if (!model) return forward_error(std::move(model));
      served.files.insert(served.files.end(), model->files.begin(), model->files.end());
      served.chunk_bytes = std::min(served.chunk_bytes, policy::chunk_bytes_for(*model));
    }
  }
  return served;
}

/// A server that has been checked completely and is ready to let guests in.
struct ServePlan {
  RunReport report;
  telemetry::Telemetry* telemetry = nullptr;
  Pager* pager = nullptr;  // the server's
  std::unique_ptr<attach::Server> server;
  OwnedFd signals;
  std::optional<ReportFile> json;
};

Result<std::unique_ptr<Pager>> start_pager(const ServePlan& plan, const Served& served) {
  const OwnedFd model(::open(served.files.front().path.c_str(), O_RDONLY | O_CLOEXEC));
  PagerOptions options;
  options.window_bytes = plan.report.window_bytes;
  options.window_bytes_max = plan.report.memory_limit.bytes;
  options.chunk_bytes = served.chunk_bytes;
  options.mapper = plan.report.options.mapper;
  options.serves_guests = true;
  options.follows_memory_limit = true;
  options.device = io::device_limits(model.get(), served.copies);
  options.telemetry = plan.telemetry;
  return Pager::start(options);
}

Status add_file(attach::Server& server, const model::File& file,
                const std::vector<io::CheckedCopy>& copies) {
  const auto& [path, size_bytes] = file;
  auto model = model::open_model_file(path);
  if (!model && model.error().error_number == ENOTSUP)
    model = model::in_file_order(path, size_bytes);
  if (!model) return forward_error(std::move(model));
  RegionRequest request;
  request.path = request.name = path;
  request.model = &*model;
  request.file = io::settled_identity_of(path);
  if (request.file) request.copies = io::copies_of(copies, *request.file);
  return server.add_file(request);
}

std::vector<std::string> paths_of(const std::vector<model::File>& files) {
  std::vector<std::string> paths;
  for (const model::File& file : files) paths.push_back(file.path);
  return paths;
}

Result<ServePlan> make_plan(const ServeOptions& options) {
  ServePlan plan;
  plan.report.options = options.common;
  plan.report.memory_limit = memory_limit();
  auto served = models_named(options.models);
  if (!served) return forward_error(std::move(served));
  uint64_t model_bytes = 0;
  for (const model::File& file : served->files) model_bytes += file.size_bytes;
  const auto window = parse_window(options.common.window, model_bytes, plan.report.memory_limit);
  if (!window) return tl::make_unexpected(window.error());
  plan.report.window_bytes = *window;
  const auto socket = server_socket(options.name);
  if (!socket) return tl::make_unexpected(socket.error());
  if (auto open = check_userfaultfd(probe_userfaultfd()); !open) {
    return forward_error(std::move(open));
  }
  auto copies = check_mirrors(options.common.mirrors, paths_of(served->files));
  if (!copies) return forward_error(std::move(copies));
  served->copies = std::move(*copies);
  auto signals = ending_signals();
  if (!signals) return forward_error(std::move(signals));
  plan.signals = std::move(*signals);
  auto telemetry = telemetry::create("");
  if (!telemetry) return forward_error(std::move(telemetry));
  plan.telemetry = *telemetry;
  plan.report.processes = {plan.telemetry};
  auto pager = start_pager(plan, *served);
  if (!pager) return forward_error(std::move(pager));
  plan.pager = pager->get();
  auto server = attach::Server::start(*socket, std::move(*pager));
  if (!server) return forward_error(std::move(server));
  plan.server = std::move(*server);
  for (const model::File& file : served->files) {
    if (auto added = add_file(*plan.server, file, served->copies); !added) {
      return forward_error(std::move(added));
    }
  }
  if (options.common.json_path.empty()) return plan;
  auto json = ReportFile::create(options.common.json_path);
  if (!json) return forward_error(std::move(json));
  plan.json.emplace(std::move(*json));
  return plan;
}

int serve(const ServeOptions& options) {
  set_quiet(options.common.quiet);
  auto plan = make_plan(options);
  if (!plan) return failure(plan.error());
  RunReport& report = plan->report;
  if (!options.common.quiet) {
    print(stderr, fmt::format("weightpager: serving {} in a window of {}; engines join with\n"
                              "  weightpager run --attach {} -- ENGINE [ARGUMENTS]\n",
                              shell_line(options.models), format_size(report.window_bytes),
                              shell_line({options.name})));
  }
  control::PagerAnswers answers(*plan->pager, *plan->telemetry, "server");
  auto socket = control::ControlSocket::open(
      [&](std::string_view it) { return answers.answer(it); }, options.http_port);
  if (!socket) notice(socket.error().message);
  const uint64_t started_ns = telemetry::monotonic_ns();
  const auto ended = plan->server->run(plan->signals.get());
  report.elapsed_ns = telemetry::monotonic_ns() - started_ns;
  plan->telemetry->ended_ns.store(telemetry::monotonic_ns());
  const uint64_t guests = plan->server->guests_seen();
  socket = nullptr;
  answers.end_trace();
  plan->server.reset();
  if (!options.common.quiet) {
    print(stderr, fmt::format("weightpager: served {} engine{}\n", guests, guests == 1 ? "" : "s") +
                      summary_text(report));
  }
  if (!ended) return failure(ended.error());
  if (!plan->json) return exit_success;
  const auto written = plan->json->commit(report_json(report));
  return written ? exit_success : failure(written.error());
}

}  // namespace

int serve_command(const std::vector<std::string>& words) {
  if (names_networks(words)) return serve_networks_command(words);
  return carry_out(serve_description(), words, read_serve_options, serve);
}

}  // namespace weightpager::tools
