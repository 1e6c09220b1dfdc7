// Names of layouts, for code that uses only these and computes nothing.
#include "pager/base/assert.h"
#include "runtime/ops/cpu/layout.h"

namespace weightpager::ops {

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::nchw:
      return "nchw";
    case Layout::nhwc:
      return "nhwc";
    case Layout::nChw8c:
      return "nChw8c";
    case Layout::nChw16c:
      return "nChw16c";
  }
  WP_ASSERT(!"a layout that is not in the list");
}

}  // namespace weightpager::ops
