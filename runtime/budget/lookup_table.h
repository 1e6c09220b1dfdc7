// SwapNet's own way to its blocks, to compare with blocks.h. It takes the number of blocks that the
// budget suggests. Of all cuts into that many, it takes the one with the least delay that the
// paper's equation predicts.
//
// Equation (4) adds up the time that computing does not cover: with ov(1) = 0 and in(n+1) = 0,
//
//   ov(i) = out(i−1) + in(i+1) − (ex(i) + max(ov(i−1), 0)),   i = 2 … n
//
// As printed, the last term is ov(i−1) even where that is negative, so time that is left over
// delays the next block. ov(n) counts the block that is let go while the last block computes, which
// delays nothing. And the sum lacks in(1), and the part of in(2) that ex(1) does not cover, though
// both differ from cut to cut. All three are mended here. One thing is not: a read may find the
// channel busy. So the prediction is a lower bound of the delay.
//
// Cost: the rows are all C(layers − 1, blocks − 1) cuts, O(blocks) each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"

namespace weightpager::budget {

/// ceil(2 · model / budget); 1 where the budget takes the whole model (the paper says 2 there, and
/// would swap without need).
uint64_t suggested_blocks(uint64_t model_bytes, uint64_t budget_bytes);

/// The sum of the mended equation. `blocks` are their costs.
uint64_t uncovered_ns(std::span<const LayerCosts> blocks);
/// The delay that the mended equation predicts.
uint64_t predicted_delay_ns(std::span<const LayerCosts> blocks);

/// A table with more rows is refused: these are a second's work.
inline constexpr uint64_t table_rows_max = 1'000'000;

/// Calls `visit` for each cut of so many layers into so many blocks (1 to `layers`), in the order
/// of the cuts' numbers.
void for_each_cut(uint32_t layers, uint32_t blocks,
                  const std::function<void(const BlockEnds&)>& visit);

/// All cuts into a number of blocks, with the bytes that they need and their predicted delay: the
/// table that the paper makes once per network. A row is 16 bytes and a cut's numbers.
class LookupTable {
 public:
  /// Fails if there would be more than `table_rows_max` rows, or fewer layers than blocks.
  static Result<LookupTable> make(const BlockedNetwork& network, uint32_t blocks);

  /// The row with the least predicted delay of those that fit; nothing if none fits. The plan's
  /// delay is the one that the blocks really take (blocks.h).
  std::optional<BlockPlan> choose(uint64_t budget_bytes) const;

  uint64_t rows() const { return rows_.size(); }
  /// What the rows take in memory.
  uint64_t size_bytes() const { return rows() * (sizeof(Row) + blocks_ * sizeof(uint32_t)); }

 private:
  struct Row {
    uint64_t peak_bytes = 0;
    uint64_t predicted_ns = 0;
  };

  LookupTable(const BlockedNetwork& network, uint32_t blocks)
      : network_(network), blocks_(blocks) {}
  void add_all_rows();

  BlockedNetwork network_;
  uint32_t blocks_;
  std::vector<Row> rows_;
  std::vector<uint32_t> ends_;  // `blocks_` per row
};

/// The paper's plan for a budget: `suggested_blocks`, or the number that is given, and the table of
/// so many. Fails where no row of that table fits, even if another number of blocks would fit. The
/// error names the least budget of that number.
Result<BlockPlan> plan_by_table(const BlockedNetwork& network, uint64_t budget_bytes,
                                uint32_t blocks = any_number_of_blocks);

}  // namespace weightpager::budget
