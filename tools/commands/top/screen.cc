#include "tools/commands/top/screen.h"

#include <langinfo.h>

#include <clocale>
#include <cstdio>
#include <string_view>

// ncurses defines names without a prefix, so its header comes after all others.
#define NCURSES_NOMACROS 1
#include <curses.h>

#include "tools/terminal/terminal.h"

namespace weightpager::tools {
namespace {

enum Colour : short { green = 1, yellow = 2 };

attr_t attributes_of(Style style, bool has_colour) {
  switch (style) {
    case Style::plain:
      return A_NORMAL;
    case Style::title:
      return A_REVERSE;
    case Style::bright:
      return A_BOLD;
    case Style::good:
      return has_colour ? COLOR_PAIR(green) : A_NORMAL;
    case Style::warning:
      return has_colour ? COLOR_PAIR(yellow) | A_BOLD : A_BOLD;
  }
  return A_NORMAL;
}

}  // namespace

struct Screen::Terminal {
  SCREEN* screen = nullptr;
  bool has_colour = false;
};

Screen::Screen(std::unique_ptr<Terminal> terminal) : terminal_(std::move(terminal)) {
  is_unicode_ = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

std::unique_ptr<Screen> Screen::open() {
  if (!is_screen()) return nullptr;
  std::setlocale(LC_CTYPE, "");
  auto terminal = std::make_unique<Terminal>();
  // initscr() would end the process if ncurses does not know the terminal.
  terminal->screen = newterm(nullptr, stdout, stdin);
  if (terminal->screen == nullptr) return nullptr;
  cbreak();
  noecho();
  curs_set(0);
  keypad(stdscr, TRUE);
  if (wants_colour() && has_colors()) {
    terminal->has_colour = true;
    start_color();
    use_default_colors();
    init_pair(green, COLOR_GREEN, -1);
    init_pair(yellow, COLOR_YELLOW, -1);
  }
  return std::unique_ptr<Screen>(new Screen(std::move(terminal)));
}

Screen::~Screen() {
  endwin();
  delscreen(terminal_->screen);
}

ScreenSize Screen::size() const {
  return {static_cast<size_t>(getmaxx(stdscr)), static_cast<size_t>(getmaxy(stdscr))};
}

void Screen::show(const std::vector<Line>& lines) {
  werase(stdscr);
  for (size_t i = 0; i < lines.size(); ++i) {
    wmove(stdscr, static_cast<int>(i), 0);
    for (const Text& text : lines[i]) {
      wattrset(stdscr, static_cast<int>(attributes_of(text.style, terminal_->has_colour)));
      waddstr(stdscr, text.text.c_str());
    }
  }
  wattrset(stdscr, A_NORMAL);
  wrefresh(stdscr);
}

std::optional<char> Screen::key(int wait_ms_max) {
  wtimeout(stdscr, wait_ms_max);
  const int key = wgetch(stdscr);
  if (key == ERR) return std::nullopt;
  return key > 0 && key < 128 ? static_cast<char>(key) : '\0';
}

}  // namespace weightpager::tools
