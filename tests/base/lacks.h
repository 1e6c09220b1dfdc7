// A test that cannot run on this machine skips, and says what is lacking.
//
// What is lacking is asked of the machine, never of what is tested: a pager that does not start for
// another reason fails its test. Otherwise one broken start would make whole suites vanish.
// tests/skips.txt lists what may be skipped; tools/test.sh fails for every other skip.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace weightpager {

/// In words for who reads the test's output; nothing if the test can run.
using Lack = std::optional<std::string>;

inline Lack lack_unless(bool is_there, const std::string& what_is_lacking) {
  return is_there ? Lack() : Lack(what_is_lacking);
}

/// The first line of a test, or of SetUp. In any other function the test would go on behind it.
#define WP_SKIP_FOR(lack) \
  if (const ::weightpager::Lack why = (lack)) GTEST_SKIP() << "SKIPPED: " << *why

}  // namespace weightpager
