// Files of records: what they say is read, and what is none is refused with its place.
#include "runtime/memory/records_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/model/temporary_directory.h"

namespace weightpager::memory {
namespace {

void expect_refused(const std::string& text, const std::string& message) {
  const auto records = parse_records(text, "net.json");
  ASSERT_FALSE(records) << text;
  EXPECT_EQ(records.error().message, "net.json, " + message) << text;
}

TEST(Records, AreReadAndOtherKeysAreNot) {
  const auto records =
      parse_records(R"({"name": "x", "records": [[0, 1, 64], [1, 1, 128]], "of": [[1]]})", "x");
  ASSERT_TRUE(records) << records.error().message;
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[0].last_operation, 1u);
  EXPECT_EQ((*records)[1].first_operation, 1u);
  EXPECT_EQ((*records)[1].size_bytes, 128u);
}

TEST(Records, WhatIsNoRecordIsRefusedWithItsPlace) {
  const std::string arrays =
      "expected records as arrays of first operation, last operation and "
      "bytes, found ";
  expect_refused("[]", "byte 1: expected an object with records, found an array");
  expect_refused("3", "byte 1: expected an object with records, found 3");
  expect_refused("{}", "byte 2: expected records, found none");
  expect_refused(R"({"records": []})", "byte 15: expected records, found none");
  expect_refused(R"({"records": 3})", "byte 14: " + arrays + "3");
  expect_refused(R"({"records": {}})", "byte 13: " + arrays + "an object");
  expect_refused(R"({"records": [3]})", "byte 15: " + arrays + "3");
  expect_refused(R"({"records": [[0, 1, []]]})", "byte 21: " + arrays + "an array");
  expect_refused(R"({"records": [[0, 1, "x"]]})", "byte 23: " + arrays + "'x'");
  expect_refused(R"({"records": [[0, 1.5, 4]]})", "byte 21: " + arrays + "1.5");
  expect_refused(R"({"records": [[0, -1, 4]]})", "byte 20: " + arrays + "-1");
  expect_refused(R"({"records": [[0, 1]]})",
                 "byte 19: expected three numbers in a record, found 2");
  expect_refused(R"({"records": [[0, 1, 4, 5]]})",
                 "byte 25: expected three numbers in a record, found more");
  expect_refused(R"({"records": [[2, 1, 4]]})",
                 "byte 22: expected a last operation from 2 on, found 1");
  expect_refused(R"({"records": [[0, 1, 0]]})",
                 "byte 22: expected a size from 1 to 281474976710656, found 0");
  expect_refused(R"({"records": [[0, 1000000001, 1]]})",
                 "byte 28: expected an operation from 0 to 1000000000, found 1000000001");
  expect_refused(R"({"records": [[0, 1, 1]], "records": [[0, 1, 1]]})",
                 "byte 34: expected a new key, found 'records' for the second time");
}

TEST(Records, TooManyAreRefused) {
  std::string text = R"({"records": [[0, 0, 1])";
  for (size_t i = 1; i < records_max; ++i) text += ",[0, 0, 1]";
  EXPECT_TRUE(parse_records(text + "]}", "many.json"));
  const auto records = parse_records(text + ",[0, 0, 1]]}", "many.json");
  ASSERT_FALSE(records);
  EXPECT_NE(records.error().message.find("expected 2000 records at most, found more"),
            std::string::npos)
      << records.error().message;
}

TEST(Records, OfAFileThatIsNotThere) {
  const model::TemporaryDirectory directory;
  EXPECT_FALSE(read_records(directory.path("none.json")));
}

TEST(Records, BytesThatWereChangedAreReadOrRefused) {
  EXPECT_TRUE(rc::check([] {
    std::string text = R"({"name": "x", "records": [[0, 1, 64], [1, 3, 128], [2, 3, 64]]})";
    const auto changes = *rc::gen::container<std::vector<std::pair<size_t, char>>>(
        3, rc::gen::pair(rc::gen::inRange<size_t>(0, text.size()),
                         rc::gen::oneOf(rc::gen::elementOf(std::string("[]{},\":-.0129e ")),
                                        rc::gen::arbitrary<char>())));
    for (const auto& [place, byte] : changes) text[place] = byte;
    const auto records = parse_records(text, "net.json");
    if (!records) {
      RC_ASSERT(records.error().message.starts_with("net.json, byte "));
      return;
    }
    for (const TensorUsage& it : *records) {
      RC_ASSERT(it.first_operation <= it.last_operation && it.size_bytes > 0);
    }
  }));
}

}  // namespace
}  // namespace weightpager::memory
