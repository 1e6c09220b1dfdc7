// GGUF: the whole way from a file to layers; an odd last byte asks for room for the tensors' data.
#include "tests/fuzz/fuzzed_file.h"

namespace fuzz = weightpager::fuzz;
namespace model = weightpager::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static const fuzz::ScratchDirectory directory;
  static fuzz::FuzzedFile file(directory, "model.gguf");
  file.write({data, length_bytes});
  const bool wants_hole = length_bytes > 0 && data[length_bytes - 1] % 2 == 1;
  if (wants_hole) file.pad(length_bytes + (16 << 10));
  fuzz::check_opened(model::open_model(file.path()), file.path());
  return 0;
}
