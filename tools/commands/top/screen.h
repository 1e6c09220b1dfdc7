// A terminal's whole screen, by ncurses: shows pieces of text, each in a style, and reads keys.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tools/commands/top/top_frame.h"

namespace weightpager::tools {

class Screen {
 public:
  /// nullptr if standard output is no terminal that ncurses knows.
  static std::unique_ptr<Screen> open();
  /// Restores the terminal.
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  ScreenSize size() const;
  /// Whether the terminal shows more than ASCII.
  bool is_unicode() const { return is_unicode_; }
  void show(const std::vector<Line>& lines);
  /// The key that is typed within that time; 0 for a key that is no character and for a new size of
  /// the screen; nullopt if nothing came.
  std::optional<char> key(int wait_ms_max);

 private:
  struct Terminal;
  explicit Screen(std::unique_ptr<Terminal> terminal);

  std::unique_ptr<Terminal> terminal_;
  bool is_unicode_ = false;
};

}  // namespace weightpager::tools
