// A made model as one GGUF file, with all that llama.cpp wants to know about a Llama.
#include <fmt/format.h>

#include <string>
#include <type_traits>

#include "pager/base/units.h"
#include "pager/model/synthetic/formats.h"
#include "pager/model/synthetic/vocabulary.h"
#include "pager/model/synthetic/weight_writer.h"

namespace weightpager::model {
namespace {

constexpr uint64_t alignment_bytes = 32;

/// llama.cpp's `general.file_type`: which type most of the weights have.
uint32_t file_type(std::string_view type_name) {
  if (type_name == "F32") return 0;
  if (type_name == "F16") return 1;
  if (type_name == "Q4_0") return 2;
  if (type_name == "Q8_0") return 7;
  if (type_name == "Q4_K") return 14;
  if (type_name == "Q6_K") return 18;
  return 32;  // BF16
}

/// Numbers of GGUF's value types.
template <typename T>
constexpr uint32_t value_type() {
  if constexpr (std::is_same_v<T, uint32_t>) return 4;
  if constexpr (std::is_same_v<T, int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
}
constexpr uint32_t array_type = 9;

class GgufHeader {
 public:
  template <typename T>
  void pair(std::string_view key, const T& value) {
    start_pair(key);
    put(value_type<T>());
    put(value);
  }

  void pair(std::string_view key, const char* value) { pair(key, std::string(value)); }

  /// An array of what `member` gives for each of `items`.
  template <typename T, typename Items, typename Member>
  void array(std::string_view key, const Items& items, Member member) {
    start_pair(key);
    put(array_type);
    put(value_type<T>());
    put(uint64_t{items.size()});
    for (const auto& item : items) put(T(member(item)));
  }

  void tensor(const PlacedTensor& tensor) {
    ++tensors_;
    put_to(infos_, tensor.plan.gguf_name);
    put_to(infos_, static_cast<uint32_t>(tensor.plan.shape.size()));
    for (const uint64_t dimension : tensor.plan.shape) put_to(infos_, dimension);
    put_to(infos_, tensor.type->id);
    put_to(infos_, tensor.offset_bytes);
  }

  /// Magic, counts, pairs, tensor infos, padding.
  std::string bytes() const {
    std::string header = "GGUF";
    put_to(header, uint32_t{3});
    put_to(header, tensors_);
    put_to(header, pairs_);
    header += pairs_bytes_;
    header += infos_;
    header.resize(round_up(header.size(), alignment_bytes), '\0');
    return header;
  }

 private:
  template <typename T>
  static void put_to(std::string& bytes, const T& value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_to(std::string& bytes, const std::string& text) {
    put_to(bytes, uint64_t{text.size()});
    bytes += text;
  }

  template <typename T>
  void put(const T& value) {
    put_to(pairs_bytes_, value);
  }

  void start_pair(std::string_view key) {
    ++pairs_;
    put(std::string(key));
  }

  uint64_t pairs_ = 0;
  uint64_t tensors_ = 0;
  std::string pairs_bytes_;
  std::string infos_;
};

uint32_t narrow(uint64_t value) { return static_cast<uint32_t>(value); }

void add_network(GgufHeader& header, const MakePlan& plan) {
  const LlamaShape& shape = plan.shape;
  header.pair("general.architecture", "llama");
  header.pair("general.name",
              fmt::format("weightpager synthetic {}", format_size(plan.options.size_bytes)));
  header.pair("general.file_type", file_type(plan.type.name));
  header.pair("general.quantization_version", uint32_t{2});
  header.pair("general.alignment", narrow(alignment_bytes));
  header.pair("llama.block_count", narrow(shape.block_count));
  header.pair("llama.context_length", narrow(llama_context_length));
  header.pair("llama.embedding_length", narrow(shape.embedding_length));
  header.pair("llama.feed_forward_length", narrow(shape.feed_forward_length));
  header.pair("llama.attention.head_count", narrow(shape.head_count));
  header.pair("llama.attention.head_count_kv", narrow(shape.head_count_kv));
  header.pair("llama.attention.layer_norm_rms_epsilon", static_cast<float>(llama_norm_epsilon));
  header.pair("llama.rope.dimension_count", narrow(shape.head_length));
  header.pair("llama.rope.freq_base", static_cast<float>(llama_rope_base));
  header.pair("llama.vocab_size", narrow(shape.vocabulary_size));
  if (shape.experts.experts == 0) return;
  header.pair("llama.expert_count", narrow(shape.experts.experts));
  header.pair("llama.expert_used_count", narrow(shape.experts.used));
}

void add_tokenizer(GgufHeader& header, const LlamaShape& shape) {
  const std::vector<Token> tokens = make_vocabulary(shape.vocabulary_size);
  header.pair("tokenizer.ggml.model", "llama");
  header.pair("tokenizer.ggml.pre", "default");
  header.array<std::string>("tokenizer.ggml.tokens", tokens, std::mem_fn(&Token::text));
  header.array<float>("tokenizer.ggml.scores", tokens, std::mem_fn(&Token::score));
  header.array<int32_t>("tokenizer.ggml.token_type", tokens, std::mem_fn(&Token::type));
  header.pair("tokenizer.ggml.bos_token_id", token_begin);
  header.pair("tokenizer.ggml.eos_token_id", token_end);
  header.pair("tokenizer.ggml.unknown_token_id", token_unknown);
  header.pair("tokenizer.ggml.add_bos_token", true);
  header.pair("tokenizer.ggml.add_eos_token", false);
}

/// Offsets from the start of the tensor data on; `data_bytes` becomes the data's length.
std::vector<PlacedTensor> place_tensors(const MakePlan& plan, uint64_t& data_bytes) {
  const GgmlType& f32 = *find_ggml_type(0);
  std::vector<PlacedTensor> tensors;
  data_bytes = 0;
  for (PlannedTensor& planned : plan_llama_tensors(plan.shape, Format::gguf)) {
    const bool is_small = planned.kind == WeightKind::norm || planned.kind == WeightKind::router;
    const GgmlType* type = is_small ? &f32 : &plan.type;
    tensors.push_back({std::move(planned), type, data_bytes});
    data_bytes += round_up(tensors.back().size_bytes(), alignment_bytes);
  }
  return tensors;
}

}  // namespace

Result<uint64_t> make_gguf(const MakePlan& plan) {
  GgufHeader header;
  add_network(header, plan);
  add_tokenizer(header, plan.shape);
  uint64_t data_bytes = 0;
  std::vector<PlacedTensor> tensors = place_tensors(plan, data_bytes);
  for (const PlacedTensor& tensor : tensors) header.tensor(tensor);

  const std::string header_bytes = header.bytes();
  for (PlacedTensor& tensor : tensors) tensor.offset_bytes += header_bytes.size();
  const uint64_t size_bytes = header_bytes.size() + data_bytes;
  Result<MadeFile> file = MadeFile::create(plan.options.path, size_bytes);
  if (!file) return forward_error(std::move(file));

  ProgressCounter progress(plan.options.on_progress, size_bytes);
  Status status = file->write(0, header_bytes);
  progress.add(header_bytes.size());
  if (status)
    status = write_weights(*file, tensors, plan.options.seed, plan.options.threads, progress);
  if (status) status = file->commit();
  if (!status) return forward_error(std::move(status));
  return size_bytes;
}

}  // namespace weightpager::model
