// PyTorch checkpoints: the directory at the file's end, and layers.
#include "tests/fuzz/fuzzed_file.h"

namespace fuzz = weightpager::fuzz;
namespace model = weightpager::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static const fuzz::ScratchDirectory directory;
  static fuzz::FuzzedFile file(directory, "model.pt");
  file.write({data, length_bytes});
  fuzz::check_opened(model::open_model(file.path()), file.path());
  return 0;
}
