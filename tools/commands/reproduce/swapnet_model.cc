// Tables 1 and 2, Figures 8 and 9: what the delay model is made of.
#include <fmt/format.h>

#include <array>

#include "runtime/budget/block_timeline.h"
#include "runtime/budget/lookup_table.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/commands/reproduce/swapnet_timeline.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::swapnet {
namespace {

struct PublishedMemory {
  const char* task;
  double mb;
  double percent;
};

constexpr std::array<PublishedMemory, 6> vehicle_memory = {
    {{"operating system", 1038, 12.7},
     {"SLAM and navigation", 1815, 22.2},
     {"map repository", 1229, 15.0},
     {"video capture and encoding", 488, 5.9},
     {"CUDA kernel", 1518, 18.5},
     {"remaining", 2104, 25.7}}};

/// A row of the paper's Table 2, as printed.
struct PublishedLayer {
  uint32_t number;
  const char* size;
  uint32_t depth;
  const char* operations;
};

constexpr std::array<PublishedLayer, 7> resnet_layers = {{{1, "0.38 MB", 1, "26.2 M"},
                                                          {2, "1.49 MB", 5, "0.8 K"},
                                                          {3, "1.12 MB", 1, "123.9 M"},
                                                          {4, "5.93 MB", 5, "4.2 K"},
                                                          {5, "4.38 MB", 6, "316.7 M"},
                                                          {100, "23.6 MB", 1, "30 K"},
                                                          {101, "17.45 MB", 1, "5 K"}}};

}  // namespace

Result<Reproduction> table_1(const ReproduceSettings&) {
  double all_mb = 0;
  for (const PublishedMemory& it : vehicle_memory) all_mb += it.mb;
  Table table = {
      .title = "Memory of the self-driving vehicle, as published",
      .columns = {"task", "MB", "share, %", "share, calculated"},
      .rows = {},
      .note =
          "Inputs: nothing is calculated but the last column. Of what remains, the "
          "paper gives the networks 843 MB, and 32 MB to what they need beside weights."};
  for (const PublishedMemory& it : vehicle_memory) {
    table.rows.push_back({it.task, fmt::format("{:.0f}", it.mb), fmt::format("{:.1f}", it.percent),
                          fmt::format("{:.1f}", 100 * it.mb / all_mb)});
  }
  table.rows.push_back({"all", fmt::format("{:.0f}", all_mb), "", ""});
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {}};
}

Result<Reproduction> table_2(const ReproduceSettings&) {
  const auto resnet = paper_network(PaperModel::resnet101);
  if (!resnet) return tl::make_unexpected(resnet.error());
  Table table = {.title = "Layers of ResNet-101, published / ours",
                 .columns = {"layer", "size", "depth (tensors)", "operations"},
                 .rows = {},
                 .note = fmt::format(
                     "Ours are PyTorch's {} layers of {:.1f} MiB at 224 x 224; a multiplication "
                     "with its addition counts as two operations.",
                     resnet->layers.size(), mebibytes(resnet->size_bytes()))};
  for (const PublishedLayer& it : resnet_layers) {
    const budget::Work& ours = resnet->layers[it.number - 1].work;
    table.rows.push_back(
        {fmt::format("{}", it.number),
         fmt::format("{} / {:.2f} MiB", it.size, mebibytes(ours.size_bytes)),
         fmt::format("{} / {}", it.depth, ours.tensors),
         fmt::format("{} / {:.1f} M", it.operations, static_cast<double>(ours.operations) / 1e6)});
  }
  return Reproduction{
      .tables = {std::move(table)},
      .pictures = {},
      .lacks = {"The published rows are not the layers of a ResNet-101: its first convolution has "
                "0.04 MiB, and no layer is larger than 9. So the layers and the input size behind "
                "the paper's table are not known."}};
}

Result<Reproduction> figure_8(const ReproduceSettings&) {
  const auto resnet = paper_network(PaperModel::resnet101);
  if (!resnet) return tl::make_unexpected(resnet.error());
  const auto plan =
      budget::plan_by_table(resnet->costs, static_cast<uint64_t>(resnet_budgets_mb[1]) * mib);
  if (!plan) return tl::make_unexpected(plan.error());
  Table table = {.title = "ResNet-101 in 119 MB, by the delay model, ms",
                 .columns = {"block", "MiB", "swap in", "assemble", "compute", "let go"},
                 .rows = {},
                 .note = model_note};
  uint32_t begin = 0;
  for (size_t i = 0; i < plan->ends.size(); ++i) {
    budget::Work work;
    for (uint32_t layer = begin; layer < plan->ends[i]; ++layer) {
      work.size_bytes += resnet->layers[layer].work.size_bytes;
      work.tensors += resnet->layers[layer].work.tensors;
    }
    const budget::LayerCosts block = budget::block_costs(resnet->costs, plan->ends)[i];
    const auto in_ms = [&](double ns) { return fmt::format("{:.1f}", ns / 1e6); };
    table.rows.push_back(
        {fmt::format("{}", i + 1), fmt::format("{:.1f}", mebibytes(work.size_bytes)),
         in_ms(resnet->delays.read_ns_per_byte * static_cast<double>(work.size_bytes)),
         in_ms(resnet->delays.read_ns_per_tensor * static_cast<double>(work.tensors)),
         in_ms(static_cast<double>(block.kernel_ns)),
         in_ms(static_cast<double>(block.release_ns))});
    begin = plan->ends[i];
  }
  return Reproduction{
      .tables = {std::move(table)},
      .pictures = {{"figure-8", timeline_svg("ResNet-101 in 119 MB", *resnet, plan->ends)}},
      .lacks = {"The paper's values are in its picture alone."}};
}

Result<Reproduction> figure_9(const ReproduceSettings&) {
  const auto resnet = paper_network(PaperModel::resnet101);
  if (!resnet) return tl::make_unexpected(resnet.error());
  const budget::DelayModel& it = resnet->delays;
  const Table table = {
      .title = "Coefficients",
      .columns = {"coefficient", "the paper's text", "used here", "from"},
      .rows = {{"α, ns per byte", "in Figure 9 alone", fmt::format("{:.3f}", it.read_ns_per_byte),
                fmt::format("{:.1f} GB/s, assumed", disk_gb_per_s)},
               {"β, µs per tensor", "50 to 55", fmt::format("{:.1f}", it.read_ns_per_tensor / 1e3),
                "the middle"},
               {"γ, ns per operation on the CPU", "in Figure 9 alone",
                fmt::format("{:.4f}", it.kernel_ns_per_operation),
                fmt::format("ResNet-101's {:.0f} - {:.0f} ms in memory", resnet_three_blocks_ms,
                            resnet_increase_ms)},
               {"η, µs per tensor", "in Figure 9 alone",
                fmt::format("{:.1f}", it.release_ns_per_tensor / 1e3),
                fmt::format("\"about {:.0f} ms\" over ResNet-101's tensors", release_ms)}},
      .note =
          "VGG-19 is taken to compute with the same γ. The text has no time in memory of YOLOv3 "
          "and "
          "FCN, which run on the GPU: here each takes 36 / 6.2 % ms, from the middle of the "
          "self-driving increases and the published mean. "
          "This machine's coefficients, with R² and the layers that fit worst: `weightpager bench "
          "blocks NET.cfg NET.weights --json FILE`, which `plan budgets --profile FILE` takes."};
  return Reproduction{.tables = {table},
                      .pictures = {},
                      .lacks = {"The measured points and lines are in the paper's picture alone."}};
}

}  // namespace weightpager::tools::swapnet
