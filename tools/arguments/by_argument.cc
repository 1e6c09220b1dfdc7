#include "tools/arguments/by_argument.h"

#include <fmt/format.h>

#include <string>

namespace weightpager::tools {

Option by_option() {
  return {0,
          "by",
          "WHAT",
          "window: a ring of layers or tiles, the rest pinned;\n"
          "blocks: two blocks of layers at a time, as SwapNet (window)",
          {"window", "blocks"}};
}

Result<bool> parse_is_by_blocks(const Arguments& arguments) {
  const std::string word = arguments.value("by").value_or("window");
  if (word == "window" || word == "blocks") return word == "blocks";
  return fail(fmt::format("--by {}: expected window or blocks", word));
}

}  // namespace weightpager::tools
