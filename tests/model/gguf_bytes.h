// GGUF files for tests, right and wrong ones. Says nothing about what is allowed: a test can put
// anything anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weightpager::model {

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;
  uint32_t type = 0;
  uint64_t offset_bytes = 0;
};

class GgufBytes {
 public:
  static constexpr uint32_t u16 = 2, u32 = 4, i32 = 5, f32 = 6, string = 8, array = 9, u64 = 10;

  uint32_t version = 3;
  uint64_t data_bytes = 0;
  uint64_t alignment_bytes = 32;

  template <typename T>
  static std::string number(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string text(const std::string& text) { return number(uint64_t{text.size()}) + text; }

  void pair(const std::string& key, uint32_t type, const std::string& value) {
    pairs_ += text(key) + number(type) + value;
    ++pair_count_;
  }

  void tensor(const GgufTensor& tensor) {
    infos_ += text(tensor.name) + number(static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t dimension : tensor.shape) infos_ += number(dimension);
    infos_ += number(tensor.type) + number(tensor.offset_bytes);
    ++tensor_count_;
  }

  /// Where the next tensor's info will start.
  uint64_t info_offset_bytes() const { return 24 + pairs_.size() + infos_.size(); }

  std::string bytes() const {
    std::string bytes = "GGUF" + number(version) + number(tensor_count_) + number(pair_count_);
    bytes += pairs_ + infos_;
    bytes.resize((bytes.size() + alignment_bytes - 1) / alignment_bytes * alignment_bytes, '\0');
    return bytes + std::string(data_bytes, 'd');
  }

 private:
  std::string pairs_;
  std::string infos_;
  uint64_t pair_count_ = 0;
  uint64_t tensor_count_ = 0;
};

/// Two F32 tensors and the pairs of a small model, valid.
inline GgufBytes small_gguf() {
  GgufBytes gguf;
  gguf.pair("general.architecture", GgufBytes::string, GgufBytes::text("llama"));
  gguf.pair("llama.block_count", GgufBytes::u32, GgufBytes::number(uint32_t{1}));
  gguf.pair("tokenizer.ggml.tokens", GgufBytes::array,
            GgufBytes::number(GgufBytes::string) + GgufBytes::number(uint64_t{2}) +
                GgufBytes::text("<s>") + GgufBytes::text("a"));
  gguf.pair("tokenizer.ggml.scores", GgufBytes::array,
            GgufBytes::number(GgufBytes::f32) + GgufBytes::number(uint64_t{2}) +
                GgufBytes::number(0.0F) + GgufBytes::number(-1.0F));
  gguf.tensor({.name = "token_embd.weight", .shape = {8, 2}, .offset_bytes = 0});
  gguf.tensor({.name = "output_norm.weight", .shape = {8}, .offset_bytes = 64});
  gguf.data_bytes = 96;
  return gguf;
}

}  // namespace weightpager::model
