// What is a model by its name, and the names that globs mean.
#include "pager/model/recognise.h"

#include <gtest/gtest.h>

#include <string>

namespace weightpager::model {
namespace {

std::string normal(std::string path) {
  normalize_path(path.data());
  return path.c_str();
}

TEST(Recognise, EndingsCountInAnyCase) {
  EXPECT_TRUE(is_model_name("/models/a.gguf", {}));
  EXPECT_TRUE(is_model_name("/models/A.GGUF", {}));
  EXPECT_TRUE(is_model_name("/models/a.SafeTensors", {}));
  EXPECT_FALSE(is_model_name("/models/a.gguf.txt", {}));
  EXPECT_FALSE(is_model_name("/models.gguf/a", {}));
  EXPECT_FALSE(is_model_name("gguf", {}));
}

TEST(Recognise, WeightsBesideAnOnnxGraphAreKnownByTheirEndings) {
  EXPECT_TRUE(is_model_name("/models/model.onnx.data", {}));
  EXPECT_TRUE(is_model_name("/models/decoder.ONNX_data", {}));
  EXPECT_FALSE(is_model_name("/models/model.onnx", {}));
  EXPECT_FALSE(is_model_name("/models/model.data", {}));
}

TEST(Recognise, GlobsLookAtTheLastPartUnlessTheyHaveASlash) {
  EXPECT_TRUE(is_model_name("/models/a.bin", {"*.bin"}));
  EXPECT_FALSE(is_model_name("/models/a.bin", {"*models*"}));
  EXPECT_TRUE(is_model_name("/models/a.bin", {"none", "/models/*"}));
  EXPECT_FALSE(is_model_name("/other/a.bin", {"/models/*"}));
  EXPECT_TRUE(is_model_name("/x/snapshots/1/a", {"*/snapshots/*"}));
  EXPECT_FALSE(is_model_name(("/a/" + std::string(2000, 'b') + "/c").c_str(), {"/a/*"}));
}

TEST(Recognise, RelativeGlobsBeginInTheDirectory) {
  EXPECT_EQ(absolute_glob("./w.pt", "/a/b"), "/a/b/w.pt");
  EXPECT_EQ(absolute_glob("../c/[xy]?.pt", "/a/b"), "/a/c/[xy]?.pt");
  EXPECT_EQ(absolute_glob("c/*", "/a[1]/b*"), "/a\\[1]/b\\*/c/*");
  EXPECT_EQ(absolute_glob("c/*", "/"), "/c/*");
  for (const char* const same : {"*.pt", "/c/*.pt", "*/c/*.pt"}) {
    EXPECT_EQ(absolute_glob(same, "/a/b"), same);
  }
}

TEST(Recognise, PathsAreNormalized) {
  EXPECT_EQ(normal("/a/b/../c//./d"), "/a/c/d");
  EXPECT_EQ(normal("/../../a/"), "/a");
  EXPECT_EQ(normal("/a/.."), "/");
  EXPECT_EQ(normal("//"), "/");
  EXPECT_EQ(normal("/a/.b/..c/..."), "/a/.b/..c/...");
  EXPECT_EQ(normal("a/../b"), "a/../b");
}

TEST(Recognise, FilesTravelAsText) {
  const std::vector<FileId> files = {{1, 2}, {UINT64_MAX, 0}};
  EXPECT_EQ(parse_file_ids(format_file_ids(files)), files);
  EXPECT_EQ(parse_file_ids("x,1:,:2,3:4,1:2x,5"), std::vector<FileId>({{3, 4}}));
  EXPECT_EQ(parse_file_ids(""), std::vector<FileId>());
}

}  // namespace
}  // namespace weightpager::model
