// The time limit of a long search, and its line on the terminal, from the first second on.
#pragma once

#include "pager/base/time_limit.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools {

/// The commands' message about a search that the time limit has ended.
inline constexpr const char* time_was_over =
    "--time-limit was over before everything was tried; the bounds still hold\n";

class SearchInTime {
 public:
  /// The time begins now. `doing` is the line's text, such as "searching for blocks".
  SearchInTime(const TimeLimit& limit, const char* doing) : limit_(limit.anew()) {
    limit_.on_look = [this, doing] { line_.show_seconds(doing); };
  }
  ~SearchInTime() { line_.clear(); }
  SearchInTime(const SearchInTime&) = delete;
  SearchInTime& operator=(const SearchInTime&) = delete;

  const TimeLimit& limit() const { return limit_; }

 private:
  ProgressLine line_;
  TimeLimit limit_;
};

}  // namespace weightpager::tools
