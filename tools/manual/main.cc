// Writes the files that the build installs beside the command: completion/{weightpager,
// _weightpager, weightpager.fish} and, for scdoc, man/*.scd.
//
//   weightpager_manual OUTPUT_DIR SOURCE_DIR PROSE_DIR
//
// SOURCE_DIR has completion.*; PROSE_DIR has PAGE.scd, written by hand, for some of the pages.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/manual/completion.h"
#include "tools/manual/man_page.h"
#include "tools/manual/pages.h"

namespace weightpager::tools::manual {
namespace {

namespace fs = std::filesystem;

std::string read_if_there(const fs::path& path) {
  std::ostringstream text;
  std::ifstream stream(path);
  if (stream) text << stream.rdbuf();
  return text.str();
}

bool write(const fs::path& path, const std::string& text) {
  std::ofstream stream(path);
  stream << text;
  stream.close();
  if (!stream) print(stderr, fmt::format("cannot write {}\n", path.string()));
  return bool(stream);
}

bool write_all(const fs::path& output, const fs::path& source, const fs::path& prose) {
  std::error_code ignored;
  // This also removes the pages of commands that do not exist any more.
  fs::remove_all(output / "man", ignored);
  fs::create_directories(output / "man", ignored);
  fs::create_directories(output / "completion", ignored);
  const std::vector<Page> pages = all_pages();
  const auto completion = [&](const char* name, const char* functions, const std::string& tables) {
    return write(output / "completion" / name, read_if_there(source / functions) + tables);
  };
  bool written = completion("weightpager", "completion.bash", bash_completion(pages)) &&
                 completion("_weightpager", "completion.zsh", zsh_completion(pages)) &&
                 completion("weightpager.fish", "completion.fish", fish_completion(pages));
  for (const Page& page : pages) {
    const std::string name = page_name(page.command) + ".scd";
    written = written && write(output / "man" / name, man_page(page, read_if_there(prose / name)));
  }
  return written;
}

}  // namespace
}  // namespace weightpager::tools::manual

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: weightpager_manual OUTPUT_DIR SOURCE_DIR PROSE_DIR\n");
    return 2;
  }
  return weightpager::tools::manual::write_all(argv[1], argv[2], argv[3]) ? 0 : 1;
}
