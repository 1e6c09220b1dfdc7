// `plan budgets --by blocks`: the option `--blocks`, and the blocks themselves in text and JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"
#include "runtime/network/network.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

Option blocks_option();

/// By network: the number of blocks, or budget::any_number_of_blocks. There is one network for each
/// operand.
Result<std::vector<uint32_t>> parse_blocks(const Arguments& arguments, bool is_by_blocks);

/// Fails where there are fewer layers with weights than blocks, or where a search for the best cut
/// would take too long.
Status check_number_of_blocks(const network::Network& network, uint32_t blocks);

/// A title line and one line for each block; of many blocks the first and the last ones.
std::string blocks_text(const std::string& name, const budget::BlockedNetwork& costs,
                        const budget::BlockEnds& ends);

/// `peak_bytes`, and `blocks` with layers, bytes and times.
void add_blocks(nlohmann::ordered_json& json, const budget::BlockedNetwork& costs,
                const budget::BlockEnds& ends);

}  // namespace weightpager::tools
