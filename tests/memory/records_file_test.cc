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
  const std::vector<TensorUsage>& tensors = records->tensors;
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].last_operation, 1u);
  EXPECT_EQ(tensors[1].first_operation, 1u);
  EXPECT_EQ(tensors[1].size_bytes, 128u);
  EXPECT_EQ(records->known_after, (std::vector<std::optional<uint32_t>>{{}, {}}));
}

TEST(Records, SayWhenSizesAreKnownInAnyOrderOfKeys) {
  const std::string arrays = R"("records": [[0, 1, 64], [1, 1, 128], [9, 9, 1]])";
  const std::string late = R"("known_after": [[2, 8], [1, 0]])";
  for (const std::string& text : {arrays + ", " + late, late + ", " + arrays}) {
    const auto records = parse_records("{" + text + "}", "x");
    ASSERT_TRUE(records) << records.error().message;
    EXPECT_EQ(records->known_after, (std::vector<std::optional<uint32_t>>{{}, 0, 8}));
  }
}

TEST(Records, WhatSaysWrongWhenSizesAreKnownIsRefusedWithItsPlace) {
  const std::string begin = R"({"records": [[0, 1, 64], [3, 4, 64]], "known_after": )";
  const auto expect = [&](const std::string& value, uint64_t offset, const std::string& message) {
    expect_refused(begin + value + "}",
                   "byte " + std::to_string(begin.size() + offset) + ": expected " + message);
  };
  expect("3", 2, "known_after as arrays of tensor and operation, found 3");
  expect("{}", 1, "known_after as arrays of tensor and operation, found an object");
  expect("[3]", 3, "known_after as arrays of tensor and operation, found 3");
  expect("[[1]]", 4, "two numbers in an element of known_after, found 1");
  expect("[[1, 2, 3]]", 10, "two numbers in an element of known_after, found more");
  expect("[[1, -1]]", 8, "known_after as arrays of tensor and operation, found -1");
  expect("[[2000, 1]]", 7, "a tensor from 0 to 1999, found 2000");
  expect("[[1, 1000000001]]", 16, "an operation from 0 to 1000000000, found 1000000001");
  expect("[[1, 2], [2, 1]]", 15, "a tensor from 0 to 1, found 2");
  expect("[[1, 2], [1, 1]]", 15, "a tensor that known_after has not named before, found 1");
  expect("[[1, 3]]", 7, "an operation before 3, with which tensor 1 begins, found 3");
  expect("[[0, 0]]", 7, "an operation before 0, with which tensor 0 begins, found 0");
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
  std::string late = R"({"records": [[1, 1, 1]], "known_after": [[0, 0])";
  for (size_t i = 0; i < records_max; ++i) late += ",[0, 0]";
  EXPECT_FALSE(parse_records(late + "]}", "many.json"));
}

TEST(Records, OfAFileThatIsNotThere) {
  const model::TemporaryDirectory directory;
  EXPECT_FALSE(read_records(directory.path("none.json")));
}

TEST(Records, BytesThatWereChangedAreReadOrRefused) {
  EXPECT_TRUE(rc::check([] {
    std::string text =
        R"({"records": [[0, 1, 64], [1, 3, 128], [2, 3, 64]], "known_after": [[2, 1]]})";
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
    for (size_t i = 0; i < records->tensors.size(); ++i) {
      const TensorUsage& it = records->tensors[i];
      RC_ASSERT(it.first_operation <= it.last_operation && it.size_bytes > 0);
      const auto known_after = records->known_after[i];
      RC_ASSERT(!known_after || *known_after < it.first_operation);
    }
  }));
}

}  // namespace
}  // namespace weightpager::memory
