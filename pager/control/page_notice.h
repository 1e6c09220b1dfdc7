// The lines on stderr that say where the live page is, or why there is none.
#pragma once

#include <string>

#include "pager/base/log.h"

namespace weightpager::control {

inline void tell_of_page(unsigned port) {
  notice("live page and /metrics at http://127.0.0.1:" + std::to_string(port) + "/");
}
inline void tell_of_no_page(const std::string& why) { notice("no live page: " + why); }

}  // namespace weightpager::control
