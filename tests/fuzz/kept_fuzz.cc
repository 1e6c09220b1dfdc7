// What is kept for the next time: learned profiles, and what primitives took. The first byte tells
// which.
#include <string>
#include <string_view>

#include "pager/base/assert.h"
#include "pager/profiles/stored_access_profile.h"
#include "runtime/plan/profile.h"

namespace profiles = weightpager::profiles;
namespace plan = weightpager::plan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  if (length_bytes == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), length_bytes - 1);
  if (data[0] == 'l') {
    const auto access_profile = profiles::parse_access_profile(text, "access profile");
    if (!access_profile) {
      WP_ASSERT(access_profile.error().message.starts_with("access profile"));
      return 0;
    }
    WP_ASSERT(profiles::parse_access_profile(profiles::access_profile_text(*access_profile),
                                             "access profile")
                  .has_value());
    return 0;
  }
  const auto profile = plan::parse_profile(text, "a machine", "profile");
  if (!profile) WP_ASSERT(profile.error().message.starts_with("profile"));
  if (profile) {
    const std::string again = plan::profile_text(*profile);
    WP_ASSERT(plan::parse_profile(again, "a machine", "profile").has_value());
  }
  return 0;
}
