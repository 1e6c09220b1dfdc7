#include "tools/report/table.h"

#include <gtest/gtest.h>

namespace weightpager::tools {
namespace {

const Table sample_table = {.title = "Sizes",
                            .columns = {"name", "MiB"},
                            .rows = {{"a|b", "1"}, {"say \"c\", d", "2"}},
                            .note = "Of weights."};

TEST(Table, IsMarkdownWithCellsThatCannotEndTheirColumn) {
  EXPECT_EQ(markdown_of(sample_table),
            "**Sizes**\n\n"
            "| name | MiB |\n|---|---|\n| a\\|b | 1 |\n| say \"c\", d | 2 |\n\n"
            "Of weights.\n\n");
}

TEST(Table, IsCsvWithQuotesWhereTheyAreNeeded) {
  EXPECT_EQ(csv_of(sample_table), "name,MiB\r\na|b,1\r\n\"say \"\"c\"\", d\",2\r\n");
}

}  // namespace
}  // namespace weightpager::tools
