#include "pager/api/last_error.h"

#include <cerrno>
#include <string>

#include "weightpager/weightpager.h"

namespace weightpager::api {
namespace {

thread_local std::string last_error;

}  // namespace

void remember(const Error& error) {
  last_error = error.hint.empty() ? error.message : error.message + "; " + error.hint;
  errno = error.error_number != 0 ? error.error_number : EINVAL;
}

}  // namespace weightpager::api

const char* weightpager_error(void) { return weightpager::api::last_error.c_str(); }
