// In place of cbc.cc where CBC is not installed.
#include "runtime/plan/integer_program.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {
namespace {

tl::unexpected<Error> not_built(const Instance& instance) {
  const auto reducible = cuts_needed(instance);
  return fail(
      reducible ? "this weightpager was built without CBC" : reducible.error().message,
      "such networks need an integer programming solver: install coinor-libcbc-dev, then run "
      "cmake again");
}

}  // namespace

bool has_integer_programming() { return false; }

Result<Selection> fastest_by_cbc(const Instance& instance, uint64_t, const TimeLimit&) {
  return not_built(instance);
}

Result<Selection> least_memory_by_cbc(const Instance& instance, double) {
  return not_built(instance);
}

}  // namespace weightpager::plan
