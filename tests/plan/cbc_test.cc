// What comes of answers of CBC's that cannot be right: this program has one of its functions in
// place of the library's.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "runtime/plan/integer_program.h"
#include "tests/base/lacks.h"

namespace {

// So many answers to come say that there is no solution.
int denials = 0;

}  // namespace

extern "C" int Cbc_isProvenInfeasible(void* model) {
  if (denials > 0) {
    --denials;
    return 1;
  }
  static const auto real =
      reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "Cbc_isProvenInfeasible"));
  return real(model);
}

namespace weightpager::plan {
namespace {

class Cbc : public ::testing::Test {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(lack_unless(has_integer_programming(), "built without CBC"));
  }
  void TearDown() override { denials = 0; }

  // Slow in 10 bytes, or fast in 30.
  const Instance instance_ = {
      .layouts = 1,
      .nodes = {{{{.time_ns = 5e6, .held_bytes = 10}, {.time_ns = 2e6, .held_bytes = 30}},
                 "first"}},
      .edges = {}};
};

void expect_refusal(const Result<Selection>& found, const std::string& what) {
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "CBC, the integer programming solver, says that " + what);
  EXPECT_NE(found.error().hint.find("try a budget"), std::string::npos);
}

TEST_F(Cbc, SaysThatNothingFits) {
  EXPECT_EQ(fastest_by_cbc(instance_, 20)->time_ns, 5e6);
  denials = 1;
  expect_refusal(fastest_by_cbc(instance_, 20), "no selection fits 20 bytes, where one takes 10");
}

TEST_F(Cbc, SaysThatNothingIsFastEnough) {
  EXPECT_EQ(least_memory_by_cbc(instance_, 3e6)->memory_bytes(), 30u);
  denials = 1;
  expect_refusal(least_memory_by_cbc(instance_, 3e6),
                 "no selection takes only 3.000000 ms, where one takes 2.000000");
}

}  // namespace
}  // namespace weightpager::plan
