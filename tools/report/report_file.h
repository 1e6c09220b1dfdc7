// Files that commands write: `--json FILE`, `--output FILE`.
#pragma once

#include <optional>
#include <string>

#include "pager/base/result.h"

namespace weightpager::tools {

/// A file that appears under its name only when it is complete. create() tries the path at once, so
/// that a long run does not end with "permission denied".
class ReportFile {
 public:
  /// `option` is the option that the user gave the path with, for messages.
  static Result<ReportFile> create(const std::string& path, const std::string& option = "--json");
  /// nullopt for the path "", which means that the option was not given.
  static Result<std::optional<ReportFile>> create_if_asked(const std::string& path,
                                                           const std::string& option = "--json");

  ReportFile(ReportFile&& other) noexcept;
  ReportFile& operator=(ReportFile&&) = delete;
  /// Removes a file that was not committed.
  ~ReportFile();

  /// Writes `text` and gives the file its name. Call once.
  Status commit(const std::string& text);

 private:
  ReportFile(int fd, std::string path, std::string temporary_path, std::string option);

  int fd_ = -1;
  std::string path_;
  std::string option_;
  /// "" if the path itself is written: devices, pipes.
  std::string temporary_path_;
};

}  // namespace weightpager::tools
