// The results of functions that can fail at run time.
//
// A function that can fail returns `Result<T>`: either the value or an `Error` that a person can
// act on. Conditions that always hold are asserted (assert.h); they are no errors. Exceptions stay
// inside the one library call that throws them.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace weightpager {

/// What went wrong, in words for the user.
struct Error {
  /// What happened, to which file and offset: "model.gguf, byte 24: tensor count is …, expected …".
  std::string message;
  /// The likely cause and the command that mends it; empty if there is none to offer.
  std::string hint;
  /// The errno behind it, or 0.
  int error_number = 0;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// A short form for errors: `return fail("…")`.
inline tl::unexpected<Error> fail(std::string message, std::string hint = {},
                                  int error_number = 0) {
  return tl::make_unexpected(Error{std::move(message), std::move(hint), error_number});
}

/// Passes on the failure of a call that returned another type.
template <typename T>
tl::unexpected<Error> forward_error(Result<T>&& failed) {
  return tl::make_unexpected(std::move(failed).error());
}

}  // namespace weightpager
