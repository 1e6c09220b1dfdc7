// Numbers of chunks that no file has any more, as a pager has them behind a file's last chunk: no
// policy asks for one.
#include <gtest/gtest.h>

#include <cctype>
#include <numeric>
#include <string>
#include <vector>

#include "pager/policy/named/make_policy.h"

namespace weightpager::policy {
namespace {

constexpr uint32_t file_chunks = 40;
constexpr uint32_t all_chunks = 120;

class ChunksOfNoFile : public testing::TestWithParam<std::string_view> {};

TEST_P(ChunksOfNoFile, AreNeverRead) {
  ChunkTable table(all_chunks);
  table.add_chunks(all_chunks);
  for (uint32_t slot = 0; slot < all_chunks; ++slot) table.add_slot(slot);
  std::vector<ChunkId> order(file_chunks);
  std::iota(order.begin(), order.end(), 0u);
  const auto policy = make_policy(GetParam(), table, {.reads_max = all_chunks}, order);
  policy->set_order({.cyclic = order});
  uint32_t reads = 0;
  for (const ChunkId touched : order) {
    policy->on_touch(touched, anywhere);
    for (Action action = policy->next(); action.kind == Action::Kind::read;
         action = policy->next()) {
      ASSERT_LT(action.chunk, file_chunks) << "after a touch of " << touched;
      table.start_read(action.chunk);
      table.finish_read(action.chunk);
      if (policy->on_ready(action.chunk)) table.map(action.chunk, true);
      ++reads;
    }
  }
  EXPECT_EQ(reads, file_chunks);
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const NamedPolicy& it : named_policies()) names.push_back(it.name);
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string_view>& it) {
  std::string name(it.param);
  std::erase_if(name,
                [](char letter) { return !std::isalnum(static_cast<unsigned char>(letter)); });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Policies, ChunksOfNoFile, testing::ValuesIn(names()), test_name);

}  // namespace
}  // namespace weightpager::policy
