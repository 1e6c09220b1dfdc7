// model.safetensors.index.json, and through it the JSON parser, in a directory with two shards that
// an index may name. No index may lead out of the directory.
#include <string>

#include "tests/fuzz/fuzzed_file.h"

namespace fuzz = weightpager::fuzz;
namespace model = weightpager::model;

namespace {

/// A safetensors file with one tensor of four bytes.
void write_shard(const fuzz::ScratchDirectory& directory, const std::string& name,
                 const std::string& tensor) {
  const std::string header =
      "{\"" + tensor + "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  const uint64_t header_bytes = header.size();
  std::string bytes(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  bytes += header + "data";
  fuzz::FuzzedFile(directory, name)
      .write({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

struct Place {
  fuzz::ScratchDirectory directory;
  fuzz::FuzzedFile index{directory, "model.safetensors.index.json"};
  Place() {
    write_shard(directory, "1.safetensors", "a");
    write_shard(directory, "2.safetensors", "model.layers.0.b");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static Place place;
  place.index.write({data, length_bytes});
  const auto model = model::open_model(place.index.path());
  fuzz::check_opened(model, place.directory.path(""));
  if (model) {
    for (const model::File& file : model->files)
      WP_ASSERT(file.path == place.directory.path("1.safetensors") ||
                file.path == place.directory.path("2.safetensors"));
  }
  return 0;
}
