// A terminal's whole screen, for lines of text with a style each, and keys: ncurses behind three
// functions.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tools/commands/top/top_frame.h"

namespace weightpager::tools {

class Screen {
 public:
  /// Nothing where standard output is no terminal that ncurses knows.
  static std::unique_ptr<Screen> open();
  /// The terminal is as it was before.
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  ScreenSize size() const;
  /// Whether it shows more than ASCII.
  bool is_unicode() const { return is_unicode_; }
  void show(const std::vector<Line>& lines);
  /// What is typed within so long; 0 for what is no character (a new size), nothing if nothing
  /// came.
  std::optional<char> key(int wait_ms_max);

 private:
  struct Terminal;
  explicit Screen(std::unique_ptr<Terminal> terminal);

  std::unique_ptr<Terminal> terminal_;
  bool is_unicode_ = false;
};

}  // namespace weightpager::tools
