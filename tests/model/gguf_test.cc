// GGUF headers: what is read from right ones, and what is said about wrong ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pager/model/model.h"
#include "tests/model/gguf_bytes.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::model {
namespace {

class Gguf : public testing::Test {
 protected:
  Result<Model> open(const std::string& bytes) {
    path_ = directory_.write("model.gguf", bytes);
    return open_model(path_);
  }

  void expect_error(const std::string& bytes, uint64_t offset_bytes, const std::string& message,
                    const std::string& hint = "") {
    const Result<Model> model = open(bytes);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().message, fmt::format("{}, byte {}: {}", path_, offset_bytes, message));
    EXPECT_EQ(model.error().hint, hint);
  }

  /// A file with one tensor and room for its data.
  static GgufBytes with_tensor(const GgufTensor& tensor, uint64_t data_bytes) {
    GgufBytes gguf;
    gguf.tensor(tensor);
    gguf.data_bytes = data_bytes;
    return gguf;
  }

  TemporaryDirectory directory_;
  std::string path_;
};

constexpr uint64_t first_pair_offset = 24;

TEST_F(Gguf, ReadsTensorsTypesAndPlaces) {
  const GgufBytes gguf = small_gguf();
  const Result<Model> model = open(gguf.bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, Format::gguf);
  EXPECT_EQ(model->architecture, "llama");
  ASSERT_EQ(model->tensors.size(), 2u);
  const uint64_t data_start = gguf.bytes().size() - gguf.data_bytes;
  EXPECT_EQ(model->tensors[0].name, "token_embd.weight");
  EXPECT_EQ(model->tensors[0].type, "F32");
  EXPECT_EQ(model->tensors[0].shape, (std::vector<uint64_t>{8, 2}));
  EXPECT_EQ(model->tensors[0].offset_bytes, data_start);
  EXPECT_EQ(model->tensors[0].size_bytes, 64u);
  EXPECT_EQ(model->tensors[1].offset_bytes, data_start + 64);
  EXPECT_EQ(model->weight_bytes(), 96u);
}

TEST_F(Gguf, ReadsVersion2) {
  GgufBytes gguf = small_gguf();
  gguf.version = 2;
  EXPECT_TRUE(open(gguf.bytes()));
}

TEST_F(Gguf, ReadsLargerAlignment) {
  GgufBytes gguf;
  gguf.pair("general.alignment", GgufBytes::u32, GgufBytes::number(uint32_t{4096}));
  gguf.tensor({.name = "a", .shape = {8}, .offset_bytes = 4096});
  gguf.alignment_bytes = 4096;
  gguf.data_bytes = 4096 + 32;
  const Result<Model> model = open(gguf.bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors[0].offset_bytes, 8192u);
}

TEST_F(Gguf, TensorOfUnknownTypeReachesToTheNext) {
  GgufBytes gguf;
  gguf.tensor({.name = "a", .shape = {8}, .type = 133, .offset_bytes = 0});
  gguf.tensor({.name = "b", .shape = {8}, .type = 133, .offset_bytes = 96});
  gguf.data_bytes = 100;
  const Result<Model> model = open(gguf.bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors[0].type, "type 133");
  EXPECT_EQ(model->tensors[0].size_bytes, 96u);
  EXPECT_EQ(model->tensors[1].size_bytes, 4u);
}

TEST_F(Gguf, EmptyTensorsAreAllowed) {
  GgufBytes gguf;
  gguf.tensor({.name = "full", .shape = {8}, .offset_bytes = 0});
  gguf.tensor({.name = "empty", .shape = {0, 4}, .offset_bytes = 0});
  gguf.data_bytes = 32;
  const Result<Model> model = open(gguf.bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors[1].size_bytes, 0u);
}

TEST_F(Gguf, TruncatedDataSaysHowMuchIsMissing) {
  const GgufBytes gguf = with_tensor({.name = "a", .shape = {1024}}, 1000);
  expect_error(gguf.bytes(), first_pair_offset,
               "expected tensor 'a' with 4096 bytes from byte 64 on, found the end of the file at "
               "byte 1064",
               "the file is 3096 bytes shorter than its tensors need; download it again");
}

TEST_F(Gguf, TruncatedHeaderNamesTheMissingPart) {
  expect_error(small_gguf().bytes().substr(0, 6), 4,
               "expected the version (4 bytes), found the end of the file after 2 bytes",
               "the file seems to be cut off; compare its size with the original and download it "
               "again");
}

TEST_F(Gguf, TensorCountBeyondTheFileIsRefused) {
  std::string bytes = small_gguf().bytes();
  bytes.replace(8, 8, GgufBytes::number(uint64_t{1} << 63));
  const uint64_t tensors_max = (bytes.size() - first_pair_offset) / 24;
  expect_error(bytes, 8,
               fmt::format("expected a tensor count of at most {}, which is what fits into the "
                           "file, found 9223372036854775808",
                           tensors_max));
}

TEST_F(Gguf, PairCountBeyondTheFileIsRefused) {
  std::string bytes = small_gguf().bytes();
  bytes.replace(16, 8, GgufBytes::number(~uint64_t{0}));
  expect_error(bytes, 16,
               fmt::format("expected at most {} key-value pairs, which is what fits into the file, "
                           "found 18446744073709551615",
                           (bytes.size() - first_pair_offset) / 13));
}

TEST_F(Gguf, ArrayCountBeyondTheFileIsRefused) {
  GgufBytes gguf;
  gguf.pair("k", GgufBytes::array,
            GgufBytes::number(GgufBytes::u64) + GgufBytes::number(uint64_t{1} << 61));
  const uint64_t count_offset = first_pair_offset + 8 + 1 + 4 + 4;
  expect_error(gguf.bytes(), count_offset,
               fmt::format("expected at most {} array elements, which is what fits into the file, "
                           "found 2305843009213693952",
                           (gguf.bytes().size() - count_offset - 8) / 8));
}

TEST_F(Gguf, KeyBeyondTheFileIsRefused) {
  GgufBytes gguf;
  gguf.pair("key", GgufBytes::u32, GgufBytes::number(uint32_t{1}));
  std::string bytes = gguf.bytes();
  bytes.replace(first_pair_offset, 8, GgufBytes::number(uint64_t{1} << 40));
  expect_error(bytes, first_pair_offset + 8,
               fmt::format("expected a key (1099511627776 bytes), found the end of the file after "
                           "{} bytes",
                           bytes.size() - first_pair_offset - 8),
               "the file seems to be cut off; compare its size with the original and download it "
               "again");
}

TEST_F(Gguf, OffsetBeyondTheDataIsRefused) {
  const GgufBytes gguf =
      with_tensor({.name = "a", .shape = {8}, .offset_bytes = uint64_t{1} << 40}, 32);
  expect_error(gguf.bytes(), first_pair_offset,
               "expected an offset of tensor 'a' in the 32 bytes of tensor data, found "
               "1099511627776",
               "the file is 1099511627776 bytes shorter than its tensors need; download it again");
}

TEST_F(Gguf, EmptyTensorBehindTheEndIsRefused) {
  GgufBytes gguf = with_tensor({.name = "a", .shape = {0}}, 0);
  gguf.alignment_bytes = 1;  // a file that ends with the header, before the padding
  expect_error(
      gguf.bytes(), first_pair_offset,
      "expected tensor 'a' with 0 bytes from byte 64 on, found the end of the file at byte "
      "57",
      "the file is 7 bytes shorter than its tensors need; download it again");
}

TEST_F(Gguf, OffsetThatWrapsAroundIsRefused) {
  const GgufBytes gguf =
      with_tensor({.name = "a", .shape = {8}, .offset_bytes = ~uint64_t{0} - 31}, 32);
  expect_error(gguf.bytes(), first_pair_offset,
               "expected an offset of tensor 'a' in the 32 bytes of tensor data, found "
               "18446744073709551584",
               "the header is damaged; download the file again");
}

TEST_F(Gguf, MisalignedOffsetIsRefused) {
  const GgufBytes gguf = with_tensor({.name = "a", .shape = {8}, .offset_bytes = 4}, 64);
  expect_error(gguf.bytes(), first_pair_offset,
               "expected an offset of tensor 'a' that is a multiple of 32, found 4");
}

TEST_F(Gguf, BadAlignmentIsRefused) {
  for (const uint32_t alignment : {0, 3}) {
    GgufBytes gguf;
    gguf.pair("general.alignment", GgufBytes::u32, GgufBytes::number(alignment));
    expect_error(gguf.bytes(), first_pair_offset + 8 + 17 + 4,
                 fmt::format("expected a power of two below 2^32 for general.alignment, found {}",
                             alignment));
  }
}

TEST_F(Gguf, OverlappingTensorsAreRefused) {
  GgufBytes gguf;
  gguf.tensor({.name = "a", .shape = {16}, .offset_bytes = 0});
  gguf.tensor({.name = "b", .shape = {8}, .offset_bytes = 32});
  gguf.data_bytes = 64;
  expect_error(gguf.bytes(), first_pair_offset,
               "expected tensor 'a' to end before tensor 'b' starts, at byte 32 of the data, found "
               "its end at byte 64");
}

TEST_F(Gguf, SizesThatOverflowAreRefused) {
  const uint64_t large = uint64_t{1} << 33;
  const GgufBytes gguf = with_tensor({.name = "a", .shape = {large, large}}, 32);
  expect_error(
      gguf.bytes(), first_pair_offset,
      "expected dimensions of tensor 'a' whose size is below 2^64 bytes, found 8589934592 x "
      "8589934592");
}

TEST_F(Gguf, RowsOfBrokenBlocksAreRefused) {
  const GgufBytes gguf = with_tensor({.name = "a", .shape = {100}, .type = 12}, 144);
  expect_error(gguf.bytes(), first_pair_offset,
               "expected a first dimension of tensor 'a' that is a multiple of 256 (Q4_K), found "
               "100");
}

TEST_F(Gguf, TooManyDimensionsAreRefused) {
  const GgufBytes gguf = with_tensor({.name = "a", .shape = std::vector<uint64_t>(9, 1)}, 32);
  expect_error(gguf.bytes(), first_pair_offset + 8 + 1, "expected at most 8 dimensions, found 9");
}

TEST_F(Gguf, DuplicateNamesAreRefused) {
  GgufBytes gguf;
  gguf.tensor({.name = "a", .shape = {8}, .offset_bytes = 0});
  const uint64_t second_offset = gguf.info_offset_bytes();
  gguf.tensor({.name = "a", .shape = {8}, .offset_bytes = 32});
  gguf.data_bytes = 64;
  expect_error(gguf.bytes(), second_offset,
               "expected a new tensor name, found 'a' for the second time");
}

TEST_F(Gguf, DuplicateKeysAreRefused) {
  GgufBytes gguf;
  gguf.pair("k", GgufBytes::u32, GgufBytes::number(uint32_t{1}));
  const uint64_t second_offset = gguf.info_offset_bytes();
  gguf.pair("k", GgufBytes::u32, GgufBytes::number(uint32_t{2}));
  expect_error(gguf.bytes(), second_offset, "expected a new key, found 'k' for the second time");
}

TEST_F(Gguf, EmptyKeysAreRefused) {
  GgufBytes gguf;
  gguf.pair("", GgufBytes::u32, GgufBytes::number(uint32_t{1}));
  expect_error(gguf.bytes(), first_pair_offset, "expected a key, found an empty one");
}

TEST_F(Gguf, ArraysOfArraysAreRefused) {
  GgufBytes gguf;
  gguf.pair("k", GgufBytes::array,
            GgufBytes::number(GgufBytes::array) + GgufBytes::number(uint64_t{1}));
  expect_error(gguf.bytes(), first_pair_offset + 8 + 1 + 4,
               "expected an array of numbers or strings, found an array of arrays");
}

TEST_F(Gguf, UnknownValueTypesAreRefused) {
  GgufBytes gguf;
  gguf.pair("k", 13, "");
  expect_error(gguf.bytes(), first_pair_offset + 8 + 1,
               "expected a value's type below 13, found 13");
}

TEST_F(Gguf, NegativeNumbersAreRefusedWhereTheyMakeNoSense) {
  GgufBytes gguf;
  gguf.pair("split.tensors.count", GgufBytes::i32, GgufBytes::number(int32_t{-1}));
  expect_error(gguf.bytes(), first_pair_offset + 8 + 19 + 4,
               "expected a number from 0 to 2^63 for split.tensors.count, found -1");
}

TEST_F(Gguf, OtherVersionsAreRefused) {
  GgufBytes gguf = small_gguf();
  gguf.version = 1;
  expect_error(gguf.bytes(), 4, "expected GGUF version 2 or 3, found version 1",
               "convert the model again with a current llama.cpp");
  gguf.version = 3 << 24;
  expect_error(gguf.bytes(), 4,
               "expected GGUF version 2 or 3, found the version of a big-endian file",
               "get the little-endian file of this model");
}

TEST_F(Gguf, ControlCharactersInNamesAreEscapedInErrors) {
  const GgufBytes gguf = with_tensor({.name = "\x1b[2Ja", .shape = {8}, .offset_bytes = 4}, 64);
  expect_error(gguf.bytes(), first_pair_offset,
               "expected an offset of tensor '\\x1b[2Ja' that is a multiple of 32, found 4");
}

}  // namespace
}  // namespace weightpager::model
