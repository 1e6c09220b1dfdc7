#include "tools/report_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tools/version.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using telemetry::Telemetry;

constexpr int schema_version = 1;

Json process_json(const RunReport& report, const Telemetry& process) {
  Json json = {{"process_id", process.process_id},
               {"command", process.command},
               {"mapper", process.mapper},
               {"reader", process.reader},
               {"policy", policy::policy_name(process.policy)},
               {"former_policy", policy::policy_name(process.former_policy)},
               {"profile", process.profile}};
  for (const telemetry::NamedCounter& it : telemetry::named_counters()) {
    json[it.key] = (process.*it.counter).load();
  }
  const Ratios ratio = ratios(process);
  json["elapsed_ns"] = ratio.elapsed_ns;
  json["stall_share"] = ratio.stall_share;
  json["read_busy_share"] = ratio.read_busy_share;
  json["demand_read_share"] = ratio.demand_read_share;
  json["read_bytes_per_second"] = ratio.read_bytes_per_second;
  json["read_model_multiple"] = ratio.read_model_multiple;
  json["advice"] = advice_of(report, process);
  return json;
}

Json finding_json(const Finding& finding) {
  return {{"cause", finding.cause},
          {"process_id", finding.process_id},
          {"command", finding.command},
          {"finding", finding.text},
          {"cure", finding.cure}};
}

Json config_json(const RunReport& report) {
  const RunOptions& options = report.options;
  return {{"window", options.window}, {"window_bytes", report.window_bytes},
          {"match", options.match},   {"mapper", options.mapper},
          {"policy", options.policy}, {"profile", options.profile},
          {"engine", options.engine}};
}

Json exit_json(const EngineExit& exit) {
  Json json = {{"status", nullptr}, {"signal", nullptr}};
  if (exit.signal) {
    json["signal"] = exit.signal;
  } else {
    json["status"] = exit.status;
  }
  return json;
}

tl::unexpected<Error> cannot_write(const std::string& option, const std::string& path,
                                   int error_number) {
  return fail(fmt::format("{} {}: cannot be written: {}", option, path, strerror(error_number)), {},
              error_number);
}

bool write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

/// Devices and pipes have no name to be replaced; nor has /dev/stdout, whatever lies behind it.
bool is_written_in_place(const std::string& path) {
  if (path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0) return true;
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

ReportFile::ReportFile(int fd, std::string path, std::string temporary_path, std::string option)
    : fd_(fd),
      path_(std::move(path)),
      option_(std::move(option)),
      temporary_path_(std::move(temporary_path)) {}

ReportFile::ReportFile(ReportFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      option_(std::move(other.option_)),
      temporary_path_(std::exchange(other.temporary_path_, {})) {}

ReportFile::~ReportFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

Result<std::optional<ReportFile>> ReportFile::create_if_asked(const std::string& path) {
  if (path.empty()) return std::nullopt;
  Result<ReportFile> created = create(path);
  if (!created) return forward_error(std::move(created));
  return std::optional(std::move(*created));
}

Result<ReportFile> ReportFile::create(const std::string& path, const std::string& option) {
  if (path == "-") {
    return fail(option + " -: standard output belongs to the engine",
                "give a file, or " + option + " /dev/stdout to mix them all the same");
  }
  std::string temporary_path;
  if (!is_written_in_place(path)) temporary_path = fmt::format("{}.partial-{}", path, getpid());
  const std::string& opened = temporary_path.empty() ? path : temporary_path;
  // One that was killed may have had this process's id.
  if (!temporary_path.empty()) unlink(temporary_path.c_str());
  const int fd = open(opened.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return cannot_write(option, path, errno);
  return ReportFile(fd, path, std::move(temporary_path), option);
}

Status ReportFile::commit(const std::string& text) {
  if (!write_all(fd_, text)) return cannot_write(option_, path_, errno);
  if (temporary_path_.empty()) return {};
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0)
    return cannot_write(option_, path_, errno);
  temporary_path_.clear();
  return {};
}

std::string report_json(const RunReport& report) {
  utsname kernel = {};
  uname(&kernel);
  Json json = {{"schema_version", schema_version},
               {"weightpager_version", version_number()},
               {"weightpager_commit", version_commit()},
               {"kernel", kernel.release},
               {"cpus", std::thread::hardware_concurrency()},
               {"memory_limit_bytes", report.memory_limit.bytes},
               {"memory_limit_source", report.memory_limit.source},
               {"config", config_json(report)},
               {"exit", exit_json(report.exit)},
               {"elapsed_ns", report.elapsed_ns},
               {"processes", Json::array()},
               {"findings", Json::array()}};
  for (const Telemetry* process : report.processes) {
    json["processes"].push_back(process_json(report, *process));
  }
  for (const Finding& it : report.findings) json["findings"].push_back(finding_json(it));
  // File names need not be UTF-8, JSON must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weightpager::tools
