// The answers of an engine that is attached to a server: its server's id, and what is shown of its
// models. The server answers everything else, and these answers say where the server is.
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
