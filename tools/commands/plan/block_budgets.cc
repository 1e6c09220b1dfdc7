// See block_budgets.h.
#include "tools/commands/plan/block_budgets.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/arguments/number_argument.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

constexpr uint32_t blocks_max = 1000;
/// layers² · blocks: where no more time is left, the search still takes some seconds for so many.
constexpr uint64_t cuts_max = 10'000'000;
/// Of more blocks than `lines_max` a text has the first ones and the last ones.
constexpr size_t lines_max = 12;
constexpr size_t last_lines = 3;
const char* const any_number = "any";

Result<uint32_t> parse_number_of_blocks(const std::string& text) {
  if (text == any_number) return budget::any_number_of_blocks;
  return parse_count(text, "--blocks", blocks_max);
}

std::string block_line(size_t number, uint32_t begin, uint32_t end,
                       const budget::LayerCosts& block) {
  return fmt::format("{:>5}  {:>11} {:>9.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", number,
                     fmt::format("{}-{}", begin, end - 1), mebibytes(block.size_bytes),
                     milliseconds(block.read_ns), milliseconds(block.kernel_ns),
                     milliseconds(block.release_ns));
}

}  // namespace

Option blocks_option() {
  return {0, "blocks", "N,…",
          "--by blocks: cut into so many blocks; one number for all\n"
          "networks or one for each, any: what is best (any)"};
}

Result<std::vector<uint32_t>> parse_blocks(const Arguments& arguments, bool is_by_blocks) {
  const size_t networks = arguments.operands().size();
  std::vector<uint32_t> blocks(networks, budget::any_number_of_blocks);
  const auto text = arguments.value("blocks");
  if (!text) return blocks;
  if (!is_by_blocks) return fail("--blocks is for --by blocks", "windows have no blocks");
  const std::vector<std::string> words = split_at(*text, ',');
  if (words.size() != 1 && words.size() != networks) {
    return fail(
        fmt::format("--blocks {}: expected one number, or one for each of {} networks, "
                    "found {}",
                    *text, networks, words.size()));
  }
  for (size_t i = 0; i < networks; ++i) {
    const auto number = parse_number_of_blocks(words[words.size() == 1 ? 0 : i]);
    if (!number) return tl::make_unexpected(number.error());
    blocks[i] = *number;
  }
  return blocks;
}

Status check_number_of_blocks(const network::Network& network, uint32_t blocks) {
  if (blocks == budget::any_number_of_blocks) return {};
  const auto with_weights = static_cast<uint32_t>(
      std::count_if(network.layers.begin(), network.layers.end(),
                    [](const network::Layer& layer) { return layer.folded_bytes() > 0; }));
  if (blocks > with_weights) {
    return fail(
        fmt::format("--blocks {}: there are only {} layers with weights", blocks, with_weights),
        fmt::format("from 1 to {}, or any", with_weights));
  }
  const uint64_t layers = network.layers.size();
  if (layers * layers > cuts_max / blocks) {
    return fail(fmt::format("--blocks {}: to try the cuts of {} layers would take too long", blocks,
                            layers),
                "leave --blocks out: then blocks are searched for by groups of layers");
  }
  return {};
}

std::string blocks_text(const std::string& name, const budget::BlockedNetwork& costs,
                        const budget::BlockEnds& ends) {
  const std::vector<budget::LayerCosts> blocks = budget::block_costs(costs, ends);
  std::string text = fmt::format(
      "\n{}: {} blocks, at most {:.2f} MiB in two neighbours, {:.1f} ms\n"
      "block       layers       MiB  read, ms  kernel  release\n",
      name, ends.size(), mebibytes(budget::peak_bytes(blocks)),
      milliseconds(budget::delay_ns(costs, ends)));
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends.size() > lines_max && i == lines_max - last_lines - 1) {
      const size_t left_out = ends.size() - (lines_max - 1);
      text += fmt::format("    …  {} blocks more, in --json\n", left_out);
      i += left_out;
    }
    text += block_line(i + 1, i > 0 ? ends[i - 1] : 0, ends[i], blocks[i]);
  }
  return text;
}

void add_blocks(nlohmann::ordered_json& json, const budget::BlockedNetwork& costs,
                const budget::BlockEnds& ends) {
  const std::vector<budget::LayerCosts> blocks = budget::block_costs(costs, ends);
  json["peak_bytes"] = budget::peak_bytes(blocks);
  for (size_t i = 0; i < blocks.size(); ++i) {
    json["blocks"].push_back({{"first_layer", i > 0 ? ends[i - 1] : 0},
                              {"last_layer", ends[i] - 1},
                              {"size_bytes", blocks[i].size_bytes},
                              {"read_ns", blocks[i].read_ns},
                              {"kernel_ns", blocks[i].kernel_ns},
                              {"release_ns", blocks[i].release_ns}});
  }
}

}  // namespace weightpager::tools
