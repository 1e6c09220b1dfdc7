// What an engine answers that is attached to a server: which one, and what it shows of its models.
// Everything else is the server's to answer, and these answers say where that is.
#pragma once

#include <string>
#include <string_view>

#include "pager/attach/attached_pager.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::control {

class GuestAnswers {
 public:
  /// Neither is owned; both outlive the object.
  GuestAnswers(attach::AttachedPager& pager, const telemetry::Telemetry& telemetry)
      : pager_(pager), telemetry_(telemetry) {}

  /// One line, without its end: docs/reference/control.md.
  std::string answer(std::string_view line);

 private:
  attach::AttachedPager& pager_;
  const telemetry::Telemetry& telemetry_;
};

}  // namespace weightpager::control
