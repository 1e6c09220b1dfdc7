// Headers that somebody has been at: valid files, mutated thousands of times from fixed seeds.
// Whatever comes out is a model whose tensors lie in their file, or an error that names the file
// and an offset. Run under the sanitizers, this is the test that parsers do not trust files.
#include <gtest/gtest.h>

#include <random>

#include "pager/model/model.h"
#include "tests/model/gguf_bytes.h"
#include "tests/model/safetensors_bytes.h"
#include "tests/model/temporary_directory.h"
#include "tests/model/torch_bytes.h"

namespace weightpager::model {
namespace {

constexpr int mutations = 4000;

/// Numbers that parsers stumble over.
constexpr uint64_t nasty_numbers[] = {0,
                                      1,
                                      0x7f,
                                      0xff,
                                      0xffff,
                                      0x7fff'ffff,
                                      0xffff'ffff,
                                      uint64_t{1} << 32,
                                      uint64_t{1} << 61,
                                      uint64_t{1} << 63,
                                      ~uint64_t{0} - 31,
                                      ~uint64_t{0}};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutate(std::string bytes) {
    for (uint64_t times = 1 + below(3); times > 0; --times) mutate_once(bytes);
    return bytes;
  }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  void mutate_once(std::string& bytes) {
    if (bytes.empty()) return;
    const uint64_t place = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << below(8)));
        break;
      case 1:
        bytes[place] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(place);
        break;
      case 3:
        overwrite(bytes, place);
        break;
      case 4:
        bytes.erase(place, 1 + below(16));
        break;
      case 5:
        bytes.insert(place, bytes.substr(below(bytes.size()), 1 + below(64)));
        break;
    }
  }

  void overwrite(std::string& bytes, uint64_t place) {
    const uint64_t number = nasty_numbers[below(std::size(nasty_numbers))];
    const uint64_t length = std::min<uint64_t>(below(2) == 0 ? 4 : 8, bytes.size() - place);
    bytes.replace(place, length, reinterpret_cast<const char*>(&number), length);
  }

  std::mt19937_64 random_;
};

void expect_sound(const Model& model) {
  for (const Tensor& tensor : model.tensors) {
    const uint64_t file_bytes = model.files.at(tensor.file).size_bytes;
    ASSERT_LE(tensor.offset_bytes, file_bytes);
    ASSERT_LE(tensor.size_bytes, file_bytes - tensor.offset_bytes);
  }
  for (const Layer& layer : model.layers)
    for (const uint32_t tensor : layer.tensors) ASSERT_LT(tensor, model.tensors.size());
}

void fuzz(const std::string& valid, const std::string& file_name, uint64_t seed) {
  const TemporaryDirectory directory;
  Mutator mutator(seed);
  int refused = 0;
  for (int i = 0; i < mutations; ++i) {
    SCOPED_TRACE(testing::Message() << "mutation " << i << " of seed " << seed);
    const std::string path = directory.write(file_name, mutator.mutate(valid));
    const Result<Model> model = open_model(path);
    if (model) {
      expect_sound(*model);
    } else {
      ++refused;
      ASSERT_EQ(model.error().message.rfind(path + ", byte ", 0), 0u) << model.error().message;
    }
  }
  // Otherwise the mutations would not reach what they are for.
  EXPECT_GT(refused, mutations / 10);
  EXPECT_LT(refused, mutations);
}

TEST(Fuzz, Gguf) {
  GgufBytes gguf = small_gguf();
  gguf.pair("general.alignment", GgufBytes::u32, GgufBytes::number(uint32_t{32}));
  gguf.tensor({.name = "blk.0.attn_q.weight", .shape = {32, 2}, .type = 8, .offset_bytes = 96});
  gguf.tensor({.name = "blk.0.unknown", .shape = {32, 2}, .type = 133, .offset_bytes = 192});
  gguf.data_bytes = 256;
  for (const uint64_t seed : {1, 2}) fuzz(gguf.bytes(), "model.gguf", seed);
}

TEST(Fuzz, Safetensors) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("model.embed_tokens.weight":{"dtype":"BF16","shape":[2,4],"data_offsets":[0,16]},)"
      R"("model.layers.10.mlp.up_proj.weight":{"dtype":"F32","shape":[4],"data_offsets":[16,32]},)"
      R"("model.layers.2.mlp.up_proj.weight":{"dtype":"F4","shape":[8],"data_offsets":[32,36]}}  )";
  for (const uint64_t seed : {1, 2}) fuzz(safetensors_bytes(header, 36), "model.safetensors", seed);
}

TEST(Fuzz, Torch) {
  for (const bool is_64 : {false, true}) {
    TorchBytes torch;
    torch.is_64 = is_64;
    fuzz(torch.bytes(), "model.pt", is_64 ? 1 : 2);
  }
}

}  // namespace
}  // namespace weightpager::model
