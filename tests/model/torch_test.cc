// PyTorch checkpoints: where storages lie, what is refused as damaged, and what is only not known.
// tests/engine compares with what PyTorch itself writes.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "pager/model/model.h"
#include "pager/model/recognise.h"
#include "tests/model/temporary_directory.h"
#include "tests/model/torch_bytes.h"

namespace weightpager::model {
namespace {

Result<Model> open_bytes(const std::string& bytes) {
  const TemporaryDirectory directory;
  return open_model(directory.write("checkpoint", bytes));
}

void expect_storages(const TorchBytes& torch) {
  const std::string bytes = torch.bytes();
  const Result<Model> model = open_bytes(bytes);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, Format::torch);
  ASSERT_EQ(model->tensors.size(), 3u);
  const uint64_t sizes[] = {100, 64, 7};
  const char* const names[] = {"data/0", "data/1", "data/10"};
  for (size_t i = 0; i < 3; ++i) {
    const Tensor& tensor = model->tensors[i];
    EXPECT_EQ(tensor.name, names[i]);
    EXPECT_EQ(tensor.size_bytes, sizes[i]);
    EXPECT_EQ(tensor.offset_bytes % 64, 0u);
    EXPECT_EQ(bytes.substr(tensor.offset_bytes, sizes[i]), std::string(sizes[i], 'd'));
    EXPECT_EQ(bytes.substr(tensor.offset_bytes + sizes[i], 4), "PK\7\x08");
  }
}

// Not damaged, and so paged in file order.
void expect_unknown(const TorchBytes& torch) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("checkpoint", torch.bytes());
  const Result<Model> model = open_model(path);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().error_number, ENOTSUP) << model.error().message;
  const Result<Model> paged = open_model_to_page(path);
  ASSERT_TRUE(paged);
  EXPECT_EQ(paged->format, Format::plain);
}

TEST(Torch, StoragesAreFound) { expect_storages({}); }

TEST(Torch, StoragesAreFoundBehindNumbersOf64Bits) {
  TorchBytes torch;
  torch.is_64 = true;
  expect_storages(torch);
}

TEST(Torch, AStorageMayBeTheLastEntry) {
  TorchBytes torch;
  torch.entries = {{"a/data.pkl", 1}, {"a/data/3", 65}};
  const Result<Model> model = open_bytes(torch.bytes());
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->tensors.size(), 1u);
  EXPECT_EQ(model->tensors[0].size_bytes, 65u);
}

TEST(Torch, OtherArchivesAreUnknown) {
  TorchBytes no_storages;
  no_storages.entries = {
      {"a/data.pkl", 1}, {"a/data/0x", 1}, {"b", 1}, {"data/1", 1}, {"a/data/", 0}};
  expect_unknown(no_storages);
  TorchBytes compressed;
  compressed.entries[2].method = 8;
  expect_unknown(compressed);
  TorchBytes aligned_otherwise;
  aligned_otherwise.alignment_bytes = 16;
  aligned_otherwise.entries[1].size_bytes = 16;
  expect_unknown(aligned_otherwise);
}

TEST(Torch, DamageIsToldByItsPlace) {
  const std::string bytes = TorchBytes().bytes();
  for (const uint64_t lost_bytes : {1, 22, 100}) {
    const Result<Model> model = open_bytes(bytes.substr(0, bytes.size() - lost_bytes));
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find("expected the end of a zip archive"), std::string::npos)
        << model.error().message;
    EXPECT_NE(model.error().hint.find("do it again"), std::string::npos);
  }
  TorchBytes twice;
  twice.entries[2].name = "archive/data/0";
  const Result<Model> model = open_bytes(twice.bytes());
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("expected a new storage, found 'archive/data/0'"),
            std::string::npos)
      << model.error().message;
}

TEST(Torch, FilesAreKnownByTheirContent) {
  const TemporaryDirectory directory;
  TorchBytes not_one;
  not_one.entries = {{"a/b", 1}};
  EXPECT_TRUE(is_model_file(directory.write("a.bin", TorchBytes().bytes()), {}));
  EXPECT_FALSE(is_model_file(directory.write("b.bin", not_one.bytes()), {}));
}

}  // namespace
}  // namespace weightpager::model
