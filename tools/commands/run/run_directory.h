// The place where the pagers of one run leave their telemetry for weightpager to read.
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::tools {

/// A fresh directory; it and all in it go with the object. Only this user can enter it. An engine
/// of root's may become another user in its course, so root's can be entered, and written to, by
/// whom it is told to.
class RunDirectory {
 public:
  /// In /run/weightpager-runs (for root), $XDG_RUNTIME_DIR, $TMPDIR or /tmp, the first that works.
  /// What killed runs left in these goes.
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
