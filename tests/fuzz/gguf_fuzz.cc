// GGUF: the whole way from a file to layers, as it is and with room for the tensors' data.
#include "tests/fuzz/fuzzed_file.h"

namespace fuzz = weightpager::fuzz;
namespace model = weightpager::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static const fuzz::ScratchDirectory directory;
  static fuzz::FuzzedFile file(directory, "model.gguf");
  file.write({data, length_bytes});
  fuzz::check_opened(model::open_model(file.path()), file.path());
  file.pad(length_bytes + (uint64_t{64} << 20));
  fuzz::check_opened(model::open_model(file.path()), file.path());
  return 0;
}
