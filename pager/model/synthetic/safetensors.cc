// A made model as Hugging Face has them: a directory with safetensors files and a config.json.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "pager/base/units.h"
#include "pager/model/synthetic/formats.h"
#include "pager/model/synthetic/weight_writer.h"

namespace weightpager::model {
namespace {

namespace fs = std::filesystem;
// Keeps the order in which keys are added: tensors stay in execution order.
using Json = nlohmann::ordered_json;

constexpr uint64_t shard_bytes_max = 5'000'000'000;
constexpr uint64_t header_alignment_bytes = 8;

/// Tensors that go into one file, with offsets from the start of its data on.
struct Shard {
  std::string name;
  std::vector<PlacedTensor> tensors;
  uint64_t data_bytes = 0;
};

std::vector<Shard> plan_shards(const MakePlan& plan) {
  std::vector<Shard> shards(1);
  for (PlannedTensor& planned : plan_llama_tensors(plan.shape, Format::safetensors)) {
    PlacedTensor tensor{std::move(planned), &plan.type, 0};
    const uint64_t used_bytes = shards.back().data_bytes;
    if (used_bytes > 0 && used_bytes + tensor.size_bytes() > shard_bytes_max) shards.emplace_back();
    Shard& shard = shards.back();
    tensor.offset_bytes = shard.data_bytes;
    shard.data_bytes += tensor.size_bytes();
    shard.tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

/// The header with its length in front and spaces behind.
std::string header_bytes(const Shard& shard) {
  Json header;
  header["__metadata__"]["format"] = "pt";
  for (const PlacedTensor& tensor : shard.tensors) {
    // GGUF counts dimensions from the fastest on, safetensors from the slowest.
    const std::vector<uint64_t> dimensions(tensor.plan.shape.rbegin(), tensor.plan.shape.rend());
    header[tensor.plan.hugging_face_name] = {
        {"dtype", tensor.type->name},
        {"shape", dimensions},
        {"data_offsets", {tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes()}}};
  }
  std::string text = header.dump();
  text.resize(round_up(text.size(), header_alignment_bytes), ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

Result<uint64_t> write_shard(const MakePlan& plan, Shard& shard, ProgressCounter& progress) {
  const std::string header = header_bytes(shard);
  for (PlacedTensor& tensor : shard.tensors) tensor.offset_bytes += header.size();
  const uint64_t size_bytes = header.size() + shard.data_bytes;
  Result<MadeFile> file =
      MadeFile::create((fs::path(plan.options.path) / shard.name).string(), size_bytes);
  if (!file) return forward_error(std::move(file));
  Status status = file->write(0, header);
  if (status)
    status = write_weights(*file, shard.tensors, plan.options.seed, plan.options.threads, progress);
  if (status) status = file->commit();
  if (!status) return forward_error(std::move(status));
  return size_bytes;
}

Status write_json(const std::string& directory, const char* name, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  Result<MadeFile> file = MadeFile::create((fs::path(directory) / name).string(), text.size());
  if (!file) return forward_error(std::move(file));
  Status status = file->write(0, text);
  return status ? file->commit() : status;
}

Json index_of(const std::vector<Shard>& shards) {
  Json index;
  uint64_t total_bytes = 0;
  for (const Shard& shard : shards) total_bytes += shard.data_bytes;
  index["metadata"]["total_size"] = total_bytes;
  for (const Shard& shard : shards)
    for (const PlacedTensor& tensor : shard.tensors)
      index["weight_map"][tensor.plan.hugging_face_name] = shard.name;
  return index;
}

const char* torch_type(std::string_view type_name) {
  if (type_name == "F32") return "float32";
  return type_name == "F16" ? "float16" : "bfloat16";
}

Json config_of(const MakePlan& plan) {
  const LlamaShape& shape = plan.shape;
  const bool is_mixture = shape.experts.experts > 0;
  Json config{{"architectures", {is_mixture ? "MixtralForCausalLM" : "LlamaForCausalLM"}},
              {"model_type", is_mixture ? "mixtral" : "llama"},
              {"hidden_size", shape.embedding_length},
              {"intermediate_size", shape.feed_forward_length},
              {"num_hidden_layers", shape.block_count},
              {"num_attention_heads", shape.head_count},
              {"num_key_value_heads", shape.head_count_kv},
              {"head_dim", shape.head_length},
              {"vocab_size", shape.vocabulary_size},
              {"max_position_embeddings", llama_context_length},
              {"rms_norm_eps", llama_norm_epsilon},
              {"rope_theta", llama_rope_base},
              {"hidden_act", "silu"},
              {"attention_bias", false},
              {"mlp_bias", false},
              {"tie_word_embeddings", false},
              {"bos_token_id", 1},
              {"eos_token_id", 2},
              {"torch_dtype", torch_type(plan.type.name)}};
  if (is_mixture) {
    config["num_local_experts"] = shape.experts.experts;
    config["num_experts_per_tok"] = shape.experts.used;
  }
  return config;
}

/// What an earlier model left would be mixed up with this one.
void remove_old_model(const std::string& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_weights = name.starts_with("model") &&
                            (name.ends_with(".safetensors") || name.ends_with(".index.json"));
    std::error_code ignored;
    if (is_weights) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

Result<uint64_t> make_safetensors(const MakePlan& plan) {
  const std::string& directory = plan.options.path;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return fail(fmt::format("{}: cannot make the directory: {}", directory, error.message()), {},
                error.value());
  remove_old_model(directory);

  std::vector<Shard> shards = plan_shards(plan);
  uint64_t data_bytes = 0;
  for (const Shard& shard : shards) data_bytes += shard.data_bytes;
  ProgressCounter progress(plan.options.on_progress, data_bytes);
  uint64_t size_bytes = 0;
  for (Shard& shard : shards) {
    Result<uint64_t> shard_bytes = write_shard(plan, shard, progress);
    if (!shard_bytes) return shard_bytes;
    size_bytes += *shard_bytes;
  }
  // The index comes last, so that it never names files that are not there.
  Status status = write_json(directory, "config.json", config_of(plan));
  if (status && shards.size() > 1)
    status = write_json(directory, "model.safetensors.index.json", index_of(shards));
  if (!status) return forward_error(std::move(status));
  return size_bytes;
}

}  // namespace weightpager::model
