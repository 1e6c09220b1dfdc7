// Opening models: which format, which files, and what is no model at all.
#include "pager/model/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/model/gguf_bytes.h"
#include "tests/model/safetensors_bytes.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::model {
namespace {

namespace fs = std::filesystem;

class OpenModel : public testing::Test {
 protected:
  void expect_error(const std::string& path, const std::string& message) {
    const Result<Model> model = open_model(path);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().message, message);
    EXPECT_NE(model.error().hint, "");
  }

  TemporaryDirectory directory_;
};

// --- plain files and what is no file ------------------------------------------------------------

TEST_F(OpenModel, AnyOtherFileIsOneTensorInOneLayer) {
  const std::string path = directory_.write("yolo.weights", "0123456789");
  const Result<Model> model = open_model(path);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, Format::plain);
  ASSERT_EQ(model->tensors.size(), 1u);
  EXPECT_EQ(model->tensors[0].size_bytes, 10u);
  ASSERT_EQ(model->layers.size(), 1u);
  EXPECT_EQ(model->layers[0].access, Access::whole);
  EXPECT_EQ(model->layers[0].size_bytes, 10u);
}

TEST_F(OpenModel, TheContentTellsTheFormat) {
  const Result<Model> model = open_model(directory_.write("blob", small_gguf().bytes()));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, Format::gguf);
}

TEST_F(OpenModel, NamesThatPromiseAnotherContentAreRefused) {
  for (const char* name : {"a.gguf", "A.GGUF"}) {
    const std::string gguf = directory_.write(name, "<!DOCTYPE html><html>");
    expect_error(gguf, gguf + ", byte 0: expected the bytes 'GGUF', found '<!DOCTYPE html><'");
  }
  const std::string face = directory_.write("a.safetensors", "version https://");
  expect_error(face, face +
                         ", byte 0: expected a safetensors header (8 bytes of length, then '{'), "
                         "found 'version https://'");
}

TEST_F(OpenModel, EmptyFilesAreRefused) {
  const std::string path = directory_.write("a.gguf", "");
  expect_error(path, path + ", byte 0: expected a model, found an empty file");
}

TEST_F(OpenModel, MissingFilesAreRefused) {
  const std::string path = directory_.path("missing.gguf");
  expect_error(path, path + ": cannot open the file: No such file or directory");
}

TEST_F(OpenModel, PipesAreRefusedWithoutWaiting) {
  const std::string path = directory_.path("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_error(path, path + ": expected a regular file, found a pipe");
}

TEST_F(OpenModel, DirectoriesWithoutModelAreRefused) {
  const std::string path = directory_.path("");
  expect_error(path, path +
                         ": expected model.safetensors.index.json or model.safetensors in the "
                         "directory, found neither");
}

TEST_F(OpenModel, OneFileIsNotADirectory) {
  const Result<Model> model = open_model_file(directory_.path(""));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            directory_.path("") + ": expected a model file, found a directory");
}

// --- split GGUF ---------------------------------------------------------------------------------

class SplitGguf : public OpenModel {
 protected:
  std::string write_shard(uint16_t shard, uint16_t shard_count, const std::string& tensor,
                          uint32_t tensor_count = 3) {
    GgufBytes gguf;
    if (shard == 0) gguf.pair("general.architecture", GgufBytes::string, GgufBytes::text("llama"));
    gguf.pair("split.no", GgufBytes::u16, GgufBytes::number(shard));
    gguf.pair("split.count", GgufBytes::u16, GgufBytes::number(shard_count));
    gguf.pair("split.tensors.count", GgufBytes::i32, GgufBytes::number(tensor_count));
    gguf.tensor({.name = tensor, .shape = {8}});
    gguf.data_bytes = 32;
    return directory_.write(fmt::format("m-{:05}-of-00003.gguf", shard + 1), gguf.bytes());
  }

  void write_shards() {
    for (uint16_t shard = 0; shard < 3; ++shard)
      write_shard(shard, 3, fmt::format("blk.{}.attn_q.weight", shard));
  }
};

TEST_F(SplitGguf, AnyShardOpensAll) {
  write_shards();
  for (const char* name :
       {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const Result<Model> model = open_model(directory_.path(name));
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->architecture, "llama");
    ASSERT_EQ(model->files.size(), 3u);
    EXPECT_EQ(model->files[2].path, directory_.path("m-00003-of-00003.gguf"));
    ASSERT_EQ(model->layers.size(), 3u);
    EXPECT_EQ(model->tensors[2].file, 2u);
  }
}

TEST_F(SplitGguf, OpenModelFileReadsOneShard) {
  write_shards();
  const Result<Model> model = open_model_file(directory_.path("m-00002-of-00003.gguf"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->files.size(), 1u);
  EXPECT_EQ(model->tensors.size(), 1u);
}

TEST_F(SplitGguf, MissingShardsAreNamed) {
  write_shards();
  fs::remove(directory_.path("m-00003-of-00003.gguf"));
  expect_error(directory_.path("m-00001-of-00003.gguf"),
               directory_.path("m-00003-of-00003.gguf") + ": this shard is missing, though " +
                   directory_.path("m-00001-of-00003.gguf") + " names it");
}

TEST_F(SplitGguf, RenamedShardsAreRefused) {
  write_shards();
  fs::rename(directory_.path("m-00001-of-00003.gguf"), directory_.path("m.gguf"));
  expect_error(directory_.path("m.gguf"),
               directory_.path("m.gguf") +
                   ", byte 0: expected a file name that ends in -00001-of-00003.gguf, as split.no "
                   "and split.count say, found another");
}

TEST_F(SplitGguf, ShardsOfAnotherSplitAreRefused) {
  write_shards();
  const std::string other = write_shard(1, 4, "x");
  expect_error(
      directory_.path("m-00001-of-00003.gguf"),
      other +
          ", byte 0: expected split.no 1 and split.count 3, as the file name says, found 1 "
          "and 4");
}

TEST_F(SplitGguf, MissingTensorsAreRefused) {
  write_shards();
  const std::string first = write_shard(0, 3, "x", 4);
  expect_error(first, first +
                          ", byte 0: expected split.tensors.count 4 in the 3 shards, found 3 "
                          "tensors");
}

TEST_F(SplitGguf, TensorsInTwoShardsAreRefused) {
  write_shards();
  const std::string second = write_shard(1, 3, "blk.0.attn_q.weight");
  const Result<Model> model = open_model(second);
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find(second), std::string::npos);
  EXPECT_NE(model.error().message.find("'blk.0.attn_q.weight' for the second time"),
            std::string::npos);
}

// --- sharded safetensors ------------------------------------------------------------------------

class ShardedSafetensors : public OpenModel {
 protected:
  ShardedSafetensors() {
    write_shard("model-00001-of-00002.safetensors", "model.layers.0.mlp.up_proj.weight");
    write_shard("model-00002-of-00002.safetensors", "model.layers.1.mlp.up_proj.weight");
  }

  std::string write_shard(const std::string& name, const std::string& tensor) {
    const std::string header =
        fmt::format(R"({{"{}":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}}})", tensor);
    return directory_.write(name, safetensors_bytes(header, 4));
  }

  std::string write_index(const std::string& first, const std::string& second) {
    return directory_.write(
        "model.safetensors.index.json",
        fmt::format(R"({{"metadata":{{"total_size":8,"more":[{{}}]}},"weight_map":{{
                              "model.layers.0.mlp.up_proj.weight":"{}",
                              "model.layers.1.mlp.up_proj.weight":"{}"}}}})",
                    first, second));
  }
};

TEST_F(ShardedSafetensors, ShardIndexAndDirectoryOpenAll) {
  const std::string index =
      write_index("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
  for (const std::string& path :
       {index, directory_.path(""), directory_.path("model-00002-of-00002.safetensors")}) {
    const Result<Model> model = open_model(path);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->files.size(), 2u);
    ASSERT_EQ(model->layers.size(), 2u);
    EXPECT_EQ(model->layers[1].name, "block 1");
  }
}

TEST_F(ShardedSafetensors, WithoutIndexAShardIsAModel) {
  const Result<Model> model = open_model(directory_.path("model-00002-of-00002.safetensors"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->files.size(), 1u);
}

TEST_F(ShardedSafetensors, NamesThatLeadElsewhereAreRefused) {
  for (const std::string name : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    const Result<Model> model = open_model(write_index(name, "model-00002-of-00002.safetensors"));
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find(
                  fmt::format("expected a plain file name in weight_map, found '{}'", name)),
              std::string::npos)
        << model.error().message;
  }
}

TEST_F(ShardedSafetensors, TensorsThatTheIndexOnlyPromisesAreWorthANotice) {
  const std::string index =
      write_index("model-00002-of-00002.safetensors", "model-00002-of-00002.safetensors");
  testing::internal::CaptureStderr();
  const Result<Model> model = open_model(index);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "weightpager: " + index +
                ": expected tensor 'model.layers.0.mlp.up_proj.weight' in "
                "'model-00002-of-00002.safetensors', found it in no file\n");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->files.size(), 1u);
}

TEST_F(ShardedSafetensors, AMissingShardIsNamed) {
  const std::string index =
      write_index("model-00003-of-00003.safetensors", "model-00002-of-00002.safetensors");
  const Result<Model> model = open_model(index);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, directory_.path("model-00003-of-00003.safetensors") +
                                       ": this shard is missing, though " + index + " names it");
  EXPECT_NE(model.error().hint.find("the download did not finish"), std::string::npos);
}

TEST_F(ShardedSafetensors, DeeplyNestedIndexIsRefused) {
  const std::string index = directory_.write("model.safetensors.index.json",
                                             R"({"metadata":)" + std::string(1'000'000, '['));
  const Result<Model> model = open_model(index);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            index + ", byte 44: expected JSON nested at most 32 deep, found more");
}

TEST_F(ShardedSafetensors, IndexWithoutWeightMapIsRefused) {
  const std::string index = directory_.write("model.safetensors.index.json", "{}");
  const Result<Model> model = open_model(index);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, index + ", byte 2: expected a weight_map, found none");
}

}  // namespace
}  // namespace weightpager::model
