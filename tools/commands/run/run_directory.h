// The directory where the pagers of one run leave their telemetry for weightpager to read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::tools {

/// A fresh directory. It is removed with everything in it when the object is destroyed. Only this
/// user can enter it. An engine of root's may become another user while it runs; so a user who
/// knows the name of root's directory can enter it and write to it.
class RunDirectory {
 public:
  /// Makes it in the first of these that works: /run/weightpager-runs (for root), $XDG_RUNTIME_DIR,
  /// $TMPDIR, /tmp. Removes the directories that killed runs have left there.
  static Result<RunDirectory> create();

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();

  const std::string& path() const { return path_; }

  /// Leaves a text there for the pagers; returns the file's path.
  Result<std::string> leave(const std::string& name, std::string_view text) const;

  /// The processes that mapped a model, in the order in which they mapped it. Valid until this
  /// process ends.
  std::vector<const telemetry::Telemetry*> paged_processes() const;

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace weightpager::tools
