// SwapNet's own way to its blocks, to compare with blocks.h: so many blocks as the budget suggests,
// and of all cuts into that many the one with the least delay that the paper's equation predicts.
//
// The equation (4) adds up what computing does not cover: with ov(1) = 0 and in(n+1) = 0,
//
//   ov(i) = out(i−1) + in(i+1) − (ex(i) + max(ov(i−1), 0)),   i = 2 … n
//
// As printed the last term is ov(i−1) also where that is negative, which makes time that was left
// over delay the next block. ov(n) counts what is let go while the last block computes, which
// delays nothing. And the sum lacks in(1) and what of in(2) shows behind ex(1), which differ from
// cut to cut. All three are mended here; that a read may find the channel busy is not: what it
// predicts is a lower bound of the delay.
//
// Cost: rows are all C(layers − 1, blocks − 1) cuts, O(blocks) each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"

namespace weightpager::budget {

/// ceil(2 · model / budget); 1 where the budget takes the whole model (there the paper says 2, and
/// would swap without need).
uint64_t suggested_blocks(uint64_t model_bytes, uint64_t budget_bytes);

/// The sum of the equation, mended. `blocks`: what they cost.
uint64_t uncovered_ns(std::span<const LayerCosts> blocks);
/// What the mended equation says the delay is.
uint64_t predicted_delay_ns(std::span<const LayerCosts> blocks);

/// Rows of a table beyond which it is refused: a second's work.
inline constexpr uint64_t table_rows_max = 1'000'000;

/// All cuts into so many blocks, with the bytes they need and the delay that is predicted: what the
/// paper makes once per network. A row is 16 bytes and a cut's numbers.
class LookupTable {
 public:
  /// Fails if there would be more than `table_rows_max` rows, or fewer layers than blocks.
  static Result<LookupTable> make(const BlockedNetwork& network, uint32_t blocks);

  /// The row with the least predicted delay of those that fit; nothing if none does. Its delay is
  /// what the blocks really take (blocks.h).
  std::optional<BlockPlan> choose(uint64_t budget_bytes) const;

  uint64_t rows() const { return rows_.size(); }

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

/// The paper's plan for a budget: `suggested_blocks` and its table. Fails where the table has no
/// row that fits, whatever other numbers of blocks would do, and names the least budget of that
/// many.
Result<BlockPlan> plan_by_table(const BlockedNetwork& network, uint64_t budget_bytes);

}  // namespace weightpager::budget
