// `weightpager model show`: shows what the pager sees in a model, as a table or as JSON.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "pager/base/units.h"
#include "pager/model/header_reader.h"
#include "pager/model/model.h"
#include "tools/cli/cli.h"
#include "tools/commands/model/model.h"

namespace weightpager::tools {
namespace {

using model::Model;
using model::printable;
using model::Tensor;

constexpr int model_schema_version = 1;

}  // namespace

Command model_show_description() {
  return {.name = "weightpager model show",
          .purpose =
              "Shows what is in a model, or the layers of a network's description (.cfg).\n"
              "Reads headers only.\n",
          .usage = "  weightpager model show [OPTIONS] FILE\n",
          .options = {{0, "tensors", "", "list the tensors of each layer"},
                      {0, "json", "", "print JSON: all layers and tensors"}},
          .examples =
              "  weightpager model show llama-00001-of-00003.gguf\n"
              "  weightpager model show --json model.safetensors | jq .layers\n"
              "  weightpager model show yolov4.cfg\n",
          .exit_status = "  0 shown, 1 the model cannot be read, 2 misuse\n"};
}

namespace {

const char* access_name(model::Access access) {
  return access == model::Access::sparse ? "sparse" : "whole";
}

uint64_t file_bytes(const Model& shown) {
  uint64_t bytes = 0;
  for (const model::File& file : shown.files) bytes += file.size_bytes;
  return bytes;
}

// --- for people ---------------------------------------------------------------------------------

void print_tensor(const Tensor& tensor) {
  fmt::print("   {:>10}  {:<8} {:<16} {}\n", format_size(tensor.size_bytes), tensor.type,
             fmt::format("{}", fmt::join(tensor.shape, "x")), printable(tensor.name));
}

void print_layer(const Model& shown, size_t number, bool with_tensors) {
  const model::Layer& layer = shown.layers[number];
  const uint64_t weight_bytes = shown.weight_bytes();
  const double share = weight_bytes == 0 ? 0.0
                                         : 100.0 * static_cast<double>(layer.size_bytes) /
                                               static_cast<double>(weight_bytes);
  fmt::print("{:>5}  {:<36} {:>7}  {:<6}  {:>10}  {:>5.1f} %\n", number, printable(layer.name),
             layer.tensors.size(), access_name(layer.access), format_size(layer.size_bytes), share);
  if (!with_tensors) return;
  for (const uint32_t tensor : layer.tensors) print_tensor(shown.tensors[tensor]);
}

/// The experts of a layer, added up. Most layers have none.
struct LayerExperts {
  uint64_t count = 0;
  uint64_t size_bytes = 0;
};

LayerExperts experts_of(const Model& shown, size_t layer) {
  LayerExperts experts;
  for (const model::Expert& expert : shown.experts) {
    if (expert.layer != layer) continue;
    ++experts.count;
    experts.size_bytes += expert.size_bytes();
  }
  return experts;
}

/// Prints one line for all layers that are alike: "16 layers of 32, 4 used by a token, 9.6 MiB
/// each".
void print_experts(const Model& shown) {
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> layers;  // by count and bytes
  for (size_t layer = 0; layer < shown.layers.size(); ++layer) {
    const LayerExperts experts = experts_of(shown, layer);
    if (experts.count > 0) ++layers[{experts.count, experts.size_bytes}];
  }
  const std::string used =
      shown.experts_used == 0 ? "" : fmt::format(", {} used by a token", shown.experts_used);
  for (const auto& [experts, count] : layers)
    fmt::print("experts       {} layer{} of {}{}, {} each, {} in all\n", count,
               count == 1 ? "" : "s", experts.first, used,
               format_size(experts.second / experts.first), format_size(count * experts.second));
}

void print_table(const Model& shown, bool with_tensors) {
  fmt::print("format        {}\n", format_name(shown.format));
  if (!shown.architecture.empty()) fmt::print("architecture  {}\n", printable(shown.architecture));
  fmt::print("size          {} ({} bytes), {} tensors\n", format_size(file_bytes(shown)),
             file_bytes(shown), shown.tensors.size());
  for (const model::File& file : shown.files)
    fmt::print("file          {:>10}  {}\n", format_size(file.size_bytes), printable(file.path));
  print_experts(shown);
  fmt::print("\nlayer  {:<36} {:>7}  {:<6}  {:>10}  {:>7}\n", "name", "tensors", "access", "size",
             "share");
  for (size_t number = 0; number < shown.layers.size(); ++number)
    print_layer(shown, number, with_tensors);
}

// --- for programs -------------------------------------------------------------------------------

nlohmann::ordered_json layer_json(const Model& shown, size_t number) {
  const model::Layer& layer = shown.layers[number];
  nlohmann::ordered_json json{{"name", layer.name},
                              {"access", access_name(layer.access)},
                              {"size_bytes", layer.size_bytes},
                              {"tensors", nlohmann::json::array()}};
  for (const uint32_t tensor : layer.tensors) json["tensors"].push_back(shown.tensors[tensor].name);
  if (const LayerExperts experts = experts_of(shown, number); experts.count > 0)
    json["experts"] = {{"count", experts.count}, {"size_bytes", experts.size_bytes}};
  return json;
}

nlohmann::ordered_json tensor_json(const Tensor& tensor) {
  return {{"name", tensor.name},
          {"type", tensor.type},
          {"shape", tensor.shape},
          {"file", tensor.file},
          {"offset_bytes", tensor.offset_bytes},
          {"size_bytes", tensor.size_bytes}};
}

void print_json(const Model& shown) {
  nlohmann::ordered_json json{
      {"schema_version", model_schema_version}, {"format", format_name(shown.format)},
      {"architecture", shown.architecture},     {"size_bytes", file_bytes(shown)},
      {"weight_bytes", shown.weight_bytes()},   {"files", nlohmann::json::array()},
      {"layers", nlohmann::json::array()},      {"tensors", nlohmann::json::array()}};
  for (const model::File& file : shown.files)
    json["files"].push_back({{"path", file.path}, {"size_bytes", file.size_bytes}});
  if (!shown.experts.empty()) json["experts_used"] = shown.experts_used;
  for (size_t i = 0; i < shown.layers.size(); ++i) json["layers"].push_back(layer_json(shown, i));
  for (const Tensor& tensor : shown.tensors) json["tensors"].push_back(tensor_json(tensor));
  // Names need not be UTF-8, but JSON must be.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int show(const Arguments& arguments) {
  if (arguments.operands().size() != 1) {
    print_error(
        {fmt::format("model show: expected one file, found {}", arguments.operands().size()),
         "example: weightpager model show llama.gguf"});
    return exit_misuse;
  }

  const std::string& path = arguments.operands().front();
  if (path.ends_with(".cfg") && !arguments.has("tensors"))
    return show_network(path, arguments.has("json"));
  const Result<Model> shown = model::open_model(path);
  if (!shown) return failure(shown.error());
  if (arguments.has("json"))
    print_json(*shown);
  else
    print_table(*shown, arguments.has("tensors"));
  return exit_success;
}

}  // namespace

int model_show_command(const std::vector<std::string>& words) {
  return carry_out(model_show_description(), words, show);
}

}  // namespace weightpager::tools
