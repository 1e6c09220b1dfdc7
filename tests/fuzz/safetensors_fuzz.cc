// safetensors: header and layers. The header says how long the file must be, to the byte, so the
// file gets the length that a number at the input's end asks for.
#include <cstring>

#include "tests/fuzz/fuzzed_file.h"

namespace fuzz = weightpager::fuzz;
namespace model = weightpager::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static const fuzz::ScratchDirectory directory;
  static fuzz::FuzzedFile file(directory, "model.safetensors");
  file.write({data, length_bytes});
  uint16_t more_bytes = 0;
  if (length_bytes >= sizeof more_bytes)
    std::memcpy(&more_bytes, data + length_bytes - sizeof more_bytes, sizeof more_bytes);
  file.pad(length_bytes + more_bytes);
  fuzz::check_opened(model::open_model(file.path()), file.path());
  return 0;
}
