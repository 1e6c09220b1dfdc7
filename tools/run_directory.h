// The place where the pagers of one run leave their telemetry for weightpager to read.
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::tools {

/// A fresh directory that only this user can enter; it and all in it go with the object.
class RunDirectory {
 public:
  /// In $XDG_RUNTIME_DIR, /run/weightpager (for root), $TMPDIR or /tmp, the first that works.
  static Result<RunDirectory> create();

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();

  const std::string& path() const { return path_; }

  /// The processes that mapped a model, in the order in which they did. Valid until this process
  /// ends.
  std::vector<const telemetry::Telemetry*> paged_processes() const;

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace weightpager::tools
