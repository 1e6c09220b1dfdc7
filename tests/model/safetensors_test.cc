// safetensors headers: what is read from right ones, and what is said about wrong ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pager/model/model.h"
#include "tests/model/safetensors_bytes.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::model {
namespace {

class Safetensors : public testing::Test {
 protected:
  Result<Model> open(const std::string& header, uint64_t data_bytes) {
    path_ = directory_.write("model.safetensors", safetensors_bytes(header, data_bytes));
    return open_model(path_);
  }

  /// `marker` is what stands in the header right before the offset that the error names.
  void expect_error(const std::string& header, uint64_t data_bytes, const std::string& marker,
                    const std::string& message, const std::string& hint = "") {
    const Result<Model> model = open(header, data_bytes);
    ASSERT_FALSE(model) << header;
    const uint64_t offset = 8 + header.find(marker) + marker.size();
    EXPECT_EQ(model.error().message, fmt::format("{}, byte {}: {}", path_, offset, message));
    EXPECT_EQ(model.error().hint, hint);
  }

  static std::string entry(const std::string& dtype, const std::string& shape,
                           const std::string& offsets) {
    return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
  }

  TemporaryDirectory directory_;
  std::string path_;
};

TEST_F(Safetensors, ReadsTensorsTypesAndPlaces) {
  const std::string header = R"({"__metadata__":{"format":"pt"},"b":)" +
                             entry("BF16", "[2,3]", "[4,16]") + R"(,"a":)" +
                             entry("F32", "[]", "[0,4]") + "}   ";
  const Result<Model> model = open(header, 16);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, Format::safetensors);
  ASSERT_EQ(model->tensors.size(), 2u);
  EXPECT_EQ(model->tensors[0].name, "b");
  EXPECT_EQ(model->tensors[0].type, "BF16");
  EXPECT_EQ(model->tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(model->tensors[0].offset_bytes, 8 + header.size() + 4);
  EXPECT_EQ(model->tensors[0].size_bytes, 12u);
  EXPECT_EQ(model->tensors[1].size_bytes, 4u);
}

TEST_F(Safetensors, ReadsPackedTypesAndEmptyTensors) {
  const std::string header = R"({"f4":)" + entry("F4", "[3,2]", "[0,3]") + R"(,"f6":)" +
                             entry("F6_E2M3", "[4]", "[3,6]") + R"(,"empty":)" +
                             entry("I64", "[0,7]", "[6,6]") + "}";
  const Result<Model> model = open(header, 6);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors[2].size_bytes, 0u);
}

TEST_F(Safetensors, TakesTheArchitectureFromTheConfig) {
  directory_.write("config.json", R"({"model_type": "llama"})");
  const Result<Model> model = open(R"({"a":)" + entry("U8", "[1]", "[0,1]") + "}", 1);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->architecture, "llama");
}

TEST_F(Safetensors, TruncatedDataSaysHowMuchIsMissing) {
  const std::string header = R"({"a":)" + entry("F32", "[4]", "[0,16]") + "}";
  expect_error(header, 6, header, "expected 16 bytes of tensor data, found 6",
               "the file is 10 bytes shorter than its tensors need; download it again");
}

TEST_F(Safetensors, BytesBehindTheTensorsAreRefused) {
  const std::string header = R"({"a":)" + entry("F32", "[4]", "[0,16]") + "}";
  expect_error(header, 17, header, "expected 16 bytes of tensor data, found 17",
               "the file has bytes that belong to no tensor; download it again");
}

TEST_F(Safetensors, HolesAndOverlapsAreRefused) {
  const std::string first = R"({"a":)" + entry("U8", "[4]", "[0,4]") + R"(,"b":)";
  const std::string hole = first + entry("U8", "[4]", "[5,9]");
  expect_error(hole + "}", 9, hole,
               "expected tensor 'b' at 4, where the tensor before it ends, found 5");
  const std::string overlap = first + entry("U8", "[4]", "[3,7]");
  expect_error(overlap + "}", 7, overlap,
               "expected tensor 'b' at 4, where the tensor before it ends, found 3");
}

TEST_F(Safetensors, OffsetsThatContradictTheShapeAreRefused) {
  const std::string header = R"({"a":)" + entry("F16", "[4]", "[0,9]");
  expect_error(header + "}", 9, header,
               "expected data_offsets of 'a' that are 8 bytes apart, as dtype and shape say, found "
               "[0, 9]");
  const std::string backwards = R"({"a":)" + entry("F16", "[4]", "[8,0]");
  expect_error(backwards + "}", 8, backwards,
               "expected data_offsets of 'a' that are 8 bytes apart, as dtype and shape say, found "
               "[8, 0]");
}

TEST_F(Safetensors, NegativeNumbersAreRefused) {
  expect_error(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}})", 4, "[-4,",
               "expected the data_offsets of 'a' as numbers from 0 on, found -4");
  expect_error(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 4, "[1.5]",
               "expected the shape of 'a' as numbers from 0 on, found 1.5");
}

TEST_F(Safetensors, ShapesThatOverflowAreRefused) {
  const std::string header = R"({"a":)" + entry("F32", "[4294967296,4294967296]", "[0,16]");
  expect_error(header + "}", 16, header,
               "expected a shape of 'a' of less than 2^64 bits, found 4294967296 x 4294967296");
}

TEST_F(Safetensors, PartsOfBytesAreRefused) {
  const std::string header = R"({"a":)" + entry("F4", "[3]", "[0,2]");
  expect_error(header + "}", 2, header, "expected whole bytes for 'a', found 12 bits");
}

TEST_F(Safetensors, UnknownTypesHaveTheSizeThatTheirOffsetsSay) {
  const std::string header = R"({"a":)" + entry("F12", "[2]", "[0,3]") + R"(,"b":)";
  expect_error(header + entry("U8", "[1]", "[2,3]") + "}", 3, header + entry("U8", "[1]", "[2,3]"),
               "expected tensor 'b' at 3, where the tensor before it ends, found 2");
  expect_error(R"({"a":)" + entry("F12", "[2]", "[3,0]") + "}", 3,
               R"({"a":)" + entry("F12", "[2]", "[3,0]"),
               "expected data_offsets of 'a' in order, found [3, 0]");
}

TEST_F(Safetensors, DuplicateKeysAreRefused) {
  const std::string first = R"({"a":)" + entry("U8", "[1]", "[0,1]") + R"(,"a")";
  expect_error(first + ":" + entry("U8", "[1]", "[1,2]") + "}", 2, first,
               "expected a new key, found 'a' for the second time");
}

TEST_F(Safetensors, MissingAndUnknownPartsAreRefused) {
  expect_error(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "[0,1]}",
               "expected dtype and shape of 'a', found none");
  expect_error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "[0]}",
               "expected the two data_offsets of 'a', found 1");
  expect_error(R"({"a":{"kind":"U8"}})", 1, R"("U8")",
               "expected dtype, shape and data_offsets of 'a', found 'kind'");
  expect_error(R"({"a":7})", 1, "7}", "expected tensor 'a' as an object, found 7");
  expect_error(R"({"__metadata__":{"a":7}})", 0, "7}",
               "expected __metadata__ as an object of texts, found 7");
}

TEST_F(Safetensors, DeepNestingIsRefusedAtOnce) {
  const std::string deep = R"({"a":)" + std::string(10'000'000, '[');
  expect_error(deep, 0, R"({"a":[)", "expected tensor 'a' as an object, found an array");
}

TEST_F(Safetensors, BrokenJsonIsRefused) {
  expect_error(R"({"a":})", 0, "}", "expected valid JSON, found '\"a\":}'");
}

TEST_F(Safetensors, HeaderBeyondTheFileIsRefused) {
  std::string bytes = safetensors_bytes("{}", 0);
  bytes[1] = 1;
  const std::string path = directory_.write("model.safetensors", bytes);
  const Result<Model> model = open_model(path);
  ASSERT_FALSE(model);
  EXPECT_EQ(
      model.error().message,
      path + ", byte 8: expected a header (258 bytes), found the end of the file after 2 bytes");
}

TEST_F(Safetensors, HeaderBeyondTheFormatsLimitIsRefused) {
  std::string bytes = safetensors_bytes("{", 0);
  const uint64_t length = 100'000'001;
  bytes.replace(0, 8, reinterpret_cast<const char*>(&length), 8);
  const std::string path = directory_.write("model.safetensors", bytes);
  std::filesystem::resize_file(path, 8 + length);
  const Result<Model> model = open_model(path);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            path + ", byte 8: expected a header of at most 100000000 bytes, found 100000001 bytes");
}

}  // namespace
}  // namespace weightpager::model
