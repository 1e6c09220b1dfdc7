// See lookup_table.h.
#include "runtime/budget/lookup_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::budget {
namespace {

uint64_t model_bytes(const BlockedNetwork& network) {
  uint64_t bytes = 0;
  for (const LayerCosts& layer : network.layers) bytes += layer.size_bytes;
  return bytes;
}

// ov(i), with blocks numbered from 0. `carried_ns` is the part of ov(i−1) that the block pays for.
int64_t overlap_ns(std::span<const LayerCosts> blocks, size_t i, int64_t carried_ns) {
  const uint64_t read_ns = i + 1 < blocks.size() ? blocks[i + 1].read_ns : 0;
  const auto moved_ns = static_cast<int64_t>(blocks[i - 1].release_ns + read_ns);
  return moved_ns - (static_cast<int64_t>(blocks[i].kernel_ns) + carried_ns);
}

// C(n, k), or `most` + 1 if it is more than that.
uint64_t combinations(uint64_t n, uint64_t k, uint64_t most) {
  uint64_t count = 1;
  for (uint64_t i = 1; i <= std::min(k, n - k); ++i) {
    // Exact: C(n, i−1) · (n−i+1) is a multiple of i. No overflow while count ≤ most.
    count = count * (n - i + 1) / i;
    if (count > most) return most + 1;
  }
  return count;
}

// The next cut of so many layers, in the order of the numbers; false after the last.
bool advance(std::vector<uint32_t>& ends, uint32_t layers) {
  const auto cuts = static_cast<uint32_t>(ends.size() - 1);
  for (uint32_t i = cuts; i-- > 0;) {
    if (ends[i] == layers - cuts + i) continue;
    ++ends[i];
    for (uint32_t j = i + 1; j < cuts; ++j) ends[j] = ends[j - 1] + 1;
    return true;
  }
  return false;
}

}  // namespace

uint64_t suggested_blocks(uint64_t model_bytes, uint64_t budget_bytes) {
  WP_ASSERT(budget_bytes > 0);
  if (model_bytes <= budget_bytes) return 1;
  return (2 * model_bytes + budget_bytes - 1) / budget_bytes;
}

uint64_t uncovered_ns(std::span<const LayerCosts> blocks) {
  int64_t before_ns = 0, sum_ns = 0;
  for (size_t i = 1; i + 1 < blocks.size(); ++i) {
    before_ns = std::max<int64_t>(overlap_ns(blocks, i, before_ns), 0);
    sum_ns += before_ns;
  }
  return static_cast<uint64_t>(sum_ns);
}

uint64_t predicted_delay_ns(std::span<const LayerCosts> blocks) {
  uint64_t ns = blocks.front().read_ns + uncovered_ns(blocks);
  for (const LayerCosts& block : blocks) ns += block.kernel_ns;
  if (blocks.size() > 1 && blocks[1].read_ns > blocks[0].kernel_ns) {
    ns += blocks[1].read_ns - blocks[0].kernel_ns;
  }
  return ns;
}

void for_each_cut(uint32_t layers, uint32_t blocks,
                  const std::function<void(const BlockEnds&)>& visit) {
  BlockEnds ends;
  for (uint32_t i = 1; i < blocks; ++i) ends.push_back(i);
  ends.push_back(layers);
  do {
    visit(ends);
  } while (advance(ends, layers));
}

Result<LookupTable> LookupTable::make(const BlockedNetwork& network, uint32_t blocks) {
  const uint64_t layers = network.layers.size();
  WP_ASSERT(blocks > 0);
  if (blocks > layers) {
    return fail(fmt::format("{} blocks of {} layers: there are no such cuts", blocks, layers),
                "give a larger --budget");
  }
  if (combinations(layers - 1, blocks - 1, table_rows_max) > table_rows_max) {
    return fail(fmt::format("a table of all cuts of {} layers into {} blocks has more than {} rows",
                            layers, blocks, table_rows_max));
  }
  LookupTable table(network, blocks);
  table.add_all_rows();
  return table;
}

void LookupTable::add_all_rows() {
  const BlockSums sums(network_);
  for_each_cut(sums.layers(), blocks_, [&](const BlockEnds& ends) {
    const std::vector<LayerCosts> blocks = sums.blocks(ends);
    rows_.push_back({.peak_bytes = peak_bytes(blocks), .predicted_ns = predicted_delay_ns(blocks)});
    ends_.insert(ends_.end(), ends.begin(), ends.end());
  });
}

std::optional<BlockPlan> LookupTable::choose(uint64_t budget_bytes) const {
  const Row* best = nullptr;
  for (const Row& row : rows_) {
    if (row.peak_bytes > budget_bytes) continue;
    if (best == nullptr || row.predicted_ns < best->predicted_ns) best = &row;
  }
  if (best == nullptr) return std::nullopt;
  const auto first = ends_.begin() + (best - rows_.data()) * static_cast<ptrdiff_t>(blocks_);
  BlockPlan plan = {.ends = {first, first + blocks_}, .peak_bytes = best->peak_bytes};
  plan.delay_ns = delay_ns(network_, plan.ends);
  return plan;
}

Result<BlockPlan> plan_by_table(const BlockedNetwork& network, uint64_t budget_bytes,
                                uint32_t blocks) {
  if (blocks == any_number_of_blocks) {
    // One more than there are layers is refused like any larger number.
    blocks = static_cast<uint32_t>(std::min<uint64_t>(
        suggested_blocks(model_bytes(network), budget_bytes), network.layers.size() + 1));
  }
  const auto table = LookupTable::make(network, blocks);
  if (!table) return tl::make_unexpected(table.error());
  if (auto plan = table->choose(budget_bytes)) return *std::move(plan);
  const uint64_t least_bytes = least_budget_bytes(network, blocks);
  return fail(fmt::format("no cut into {} blocks fits {} ({} bytes): the least that does is {} ({} "
                          "bytes)",
                          blocks, format_size(budget_bytes), budget_bytes, format_size(least_bytes),
                          least_bytes),
              "other numbers of blocks may fit: plan_blocks tries all of them");
}

}  // namespace weightpager::budget
