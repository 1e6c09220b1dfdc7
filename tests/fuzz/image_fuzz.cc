// Pictures: floats from 0 to 1 of the size that is said, or an error that names the file.
#include <algorithm>

#include "pager/base/assert.h"
#include "runtime/infer/image.h"
#include "tests/fuzz/fuzzed_file.h"

namespace fuzz = weightpager::fuzz;
namespace infer = weightpager::infer;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static const fuzz::ScratchDirectory directory;
  static fuzz::FuzzedFile file(directory, "picture");
  file.write({data, length_bytes});
  const auto image = infer::read_image(file.path(), 3);
  if (!image) {
    WP_ASSERT(image.error().message.starts_with(file.path()));
    return 0;
  }
  WP_ASSERT(image->values.size() == image->shape.elements());
  WP_ASSERT(std::ranges::all_of(image->values, [](float it) { return it >= 0 && it <= 1; }));
  return 0;
}
