#include "tools/arguments/resolution_argument.h"

#include <fmt/format.h>

#include <string>

#include "tools/arguments/number_argument.h"

namespace weightpager::tools {
namespace {

using network::Resolution;

// More pixels in a row than any network has; the .cfg's parser has the same bound.
constexpr uint32_t side_max = 1 << 20;
constexpr size_t resolutions_max = 64;

Result<Resolution> parse_one(const std::string& text) {
  const std::vector<std::string> sides = split_at(text, 'x');
  if (sides.size() > 2) {
    return fail(fmt::format("--resolution {}: expected one or two numbers of pixels", text),
                "--resolution 416, or width and height: --resolution 416x320");
  }
  const auto width = parse_count(sides.front(), "--resolution", side_max);
  if (!width) return tl::make_unexpected(width.error());
  const auto height = parse_count(sides.back(), "--resolution", side_max);
  if (!height) return tl::make_unexpected(height.error());
  return Resolution{.height = *height, .width = *width};
}

}  // namespace

Option resolution_option() {
  return {0, "resolution", "SIZE",
          "pictures of another size than in NET.cfg: 416, or 416x320,\n"
          "width first"};
}

Option resolutions_option() {
  return {0, "resolution", "SIZE,…",
          "pictures of other sizes than in NET.cfg, one after the other:\n"
          "320,416x320,608"};
}

Result<std::optional<Resolution>> parse_resolution(const Arguments& arguments) {
  const auto text = arguments.value("resolution");
  if (!text) return std::optional<Resolution>();
  const auto resolution = parse_one(*text);
  if (!resolution) return tl::make_unexpected(resolution.error());
  return std::optional(*resolution);
}

Result<std::vector<Resolution>> parse_resolutions(const Arguments& arguments) {
  std::vector<Resolution> resolutions;
  const auto text = arguments.value("resolution");
  if (!text) return resolutions;
  for (const std::string& word : split_at(*text, ',')) {
    const auto resolution = parse_one(word);
    if (!resolution) return tl::make_unexpected(resolution.error());
    resolutions.push_back(*resolution);
  }
  if (resolutions.size() > resolutions_max) {
    return fail(fmt::format("--resolution has {} sizes, expected {} at most", resolutions.size(),
                            resolutions_max));
  }
  return resolutions;
}

}  // namespace weightpager::tools
