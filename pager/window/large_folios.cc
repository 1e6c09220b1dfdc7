#include "pager/window/large_folios.h"

#include "pager/base/units.h"
#include "pager/base/whole_file.h"

namespace weightpager::window {
namespace {

bool are_allowed(uint64_t folio_bytes, const std::string& settings) {
  const std::string of_size =
      settings + "/hugepages-" + std::to_string(folio_bytes / KiB) + "kB/shmem_enabled";
  std::string chosen = chosen_word(of_size);
  if (chosen == "inherit") chosen = chosen_word(settings + "/shmem_enabled");
  return chosen == "always" || chosen == "within_size" || chosen == "advise" || chosen == "force";
}

}  // namespace

std::string chosen_word(const std::string& path) {
  const auto text = read_whole_file(path, 4 * KiB, "a setting");
  if (!text) return "";
  const size_t begin = text->find('[');
  const size_t end = text->find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text->substr(begin + 1, end - begin - 1);
}

bool gives_folios_of(uint64_t chunk_bytes, const std::string& settings) {
  if (chunk_bytes >= huge_page_bytes || !are_allowed(chunk_bytes, settings)) return false;
  for (uint64_t larger = 2 * chunk_bytes; larger <= huge_page_bytes; larger *= 2) {
    if (are_allowed(larger, settings)) return false;
  }
  return true;
}

}  // namespace weightpager::window
