// Made models: of the size that was asked for, the same every time, and readable by our own
// parsers. (That engines read them, too, is checked where engines are.)
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <set>

#include "pager/base/units.h"
#include "pager/model/model.h"
#include "pager/model/synthetic/make_model.h"
#include "pager/model/synthetic/vocabulary.h"
#include "pager/model/synthetic/weight_writer.h"
#include "pager/model/synthetic/weights.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::model {
namespace {

class Make : public testing::Test {
 protected:
  MakeOptions options(const std::string& name, const std::string& type) const {
    MakeOptions options;
    options.path = directory_.path(name);
    options.type = type;
    options.size_bytes = 8 * MiB;
    return options;
  }

  std::string make(const MakeOptions& options) {
    const Result<MadeModel> made = make_model(options);
    EXPECT_TRUE(made) << made.error().message;
    return options.format == Format::gguf ? read_all(options.path)
                                          : read_all(options.path + "/model.safetensors");
  }

  void expect_refused(const MakeOptions& options, const std::string& message) {
    const Result<MadeModel> made = make_model(options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message, message);
    EXPECT_NE(made.error().hint, "");
  }

  TemporaryDirectory directory_;
};

void expect_size(uint64_t is, uint64_t wanted) {
  EXPECT_LE(std::abs(static_cast<double>(is) - static_cast<double>(wanted)),
            0.02 * static_cast<double>(wanted))
      << is << " for " << wanted;
}

TEST_F(Make, EveryTypeGivesAModelOfTheWantedSize) {
  for (const char* type : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_K", "q6_K"}) {
    const MakeOptions wanted = options(fmt::format("{}.gguf", type), type);
    const Result<MadeModel> made = make_model(wanted);
    ASSERT_TRUE(made) << made.error().message;
    const Result<Model> model = open_model(wanted.path);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->architecture, "llama");
    EXPECT_EQ(model->files[0].size_bytes, made->size_bytes);
    expect_size(made->size_bytes, wanted.size_bytes);
    // embedding, blocks, output
    EXPECT_EQ(model->layers.size(), made->shape.block_count + 2);
    EXPECT_EQ(model->layers.front().access, Access::sparse);
  }
}

TEST_F(Make, FileOrderIsExecutionOrder) {
  const MakeOptions wanted = options("m.gguf", "f16");
  make(wanted);
  const Result<Model> model = open_model(wanted.path);
  ASSERT_TRUE(model);
  uint32_t next = 0;
  for (const Layer& layer : model->layers)
    for (const uint32_t tensor : layer.tensors) EXPECT_EQ(tensor, next++);
}

TEST_F(Make, SafetensorsGivesAModelDirectory) {
  MakeOptions wanted = options("model", "bf16");
  wanted.format = Format::safetensors;
  const Result<MadeModel> made = make_model(wanted);
  ASSERT_TRUE(made) << made.error().message;
  const Result<Model> model = open_model(wanted.path);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, Format::safetensors);
  EXPECT_EQ(model->architecture, "llama");
  EXPECT_EQ(model->layers.size(), made->shape.block_count + 2);
  expect_size(made->size_bytes, wanted.size_bytes);
}

TEST_F(Make, MixturesHaveTheirExpertsInBothFormats) {
  MakeOptions wanted = options("m.gguf", "q8_0");
  wanted.size_bytes = 16 * MiB;
  wanted.experts = {8, 3};
  for (const Format format : {Format::gguf, Format::safetensors}) {
    wanted.format = format;
    if (format == Format::safetensors) wanted.path = directory_.path("moe");
    if (format == Format::safetensors) wanted.type = "bf16";
    const Result<MadeModel> made = make_model(wanted);
    ASSERT_TRUE(made) << made.error().message;
    expect_size(made->size_bytes, wanted.size_bytes);
    const Result<Model> model = open_model(wanted.path);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->architecture, format == Format::gguf ? "llama" : "mixtral");
    EXPECT_EQ(model->experts_used, 3u);
    ASSERT_EQ(model->experts.size(), 8 * made->shape.block_count);
    const uint64_t parameters = 3 * made->shape.embedding_length * made->shape.feed_forward_length;
    for (const Expert& expert : model->experts) {
      ASSERT_EQ(expert.slabs.size(), 3u);
      // Q8_0: 34 bytes for 32 weights.
      EXPECT_EQ(expert.size_bytes(),
                format == Format::gguf ? parameters / 32 * 34 : parameters * 2);
    }
  }
}

TEST_F(Make, RoutersDifferBetweenLayersAndAreF32InGguf) {
  MakeOptions wanted = options("m.gguf", "q8_0");
  wanted.size_bytes = 16 * MiB;
  wanted.experts = {4, 2};
  const std::string bytes = make(wanted);
  const Result<Model> model = open_model(wanted.path);
  ASSERT_TRUE(model);
  std::set<std::string> routers;
  for (const Tensor& tensor : model->tensors) {
    if (!tensor.name.ends_with("ffn_gate_inp.weight")) continue;
    EXPECT_EQ(tensor.type, "F32");
    routers.insert(bytes.substr(tensor.offset_bytes, tensor.size_bytes));
  }
  EXPECT_GE(model->layers.size(), 3u);
  EXPECT_EQ(routers.size(), model->layers.size() - 2);
}

TEST_F(Make, RefusesMixturesThatMakeNoSense) {
  MakeOptions wanted = options("m.gguf", "q8_0");
  const auto expect_message = [&](ExpertCounts experts, const std::string& message) {
    wanted.experts = experts;
    const Result<MadeModel> made = make_model(wanted);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message, message);
  };
  expect_message({1, 1}, "a mixture has from 2 to 256 experts, not 1");
  expect_message({8, 0}, "a token uses from 1 to 8 of the experts, not 0");
  expect_message({8, 9}, "a token uses from 1 to 8 of the experts, not 9");
  expect_message({256, 4}, "256 experts do not fit into 8.0 MiB");
}

TEST_F(Make, BytesDependOnTheSeedAndNotOnTheThreads) {
  MakeOptions wanted = options("one.gguf", "q8_0");
  wanted.threads = 1;
  const std::string one_thread = make(wanted);
  wanted.path = directory_.path("four.gguf");
  wanted.threads = 4;
  EXPECT_TRUE(make(wanted) == one_thread);
  wanted.path = directory_.path("other.gguf");
  wanted.seed = 2;
  EXPECT_FALSE(make(wanted) == one_thread);
}

TEST_F(Make, LeavesNoTemporaryFile) {
  make(options("m.gguf", "f16"));
  uint64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path(""))) {
    EXPECT_EQ(entry.path().filename(), "m.gguf");
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(Make, UncommittedFilesDisappear) {
  const std::string path = directory_.path("m.gguf");
  {
    Result<MadeFile> file = MadeFile::create(path, 100);
    ASSERT_TRUE(file);
    EXPECT_TRUE(std::filesystem::exists(path + ".partial"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path("")));
}

TEST_F(Make, ReportsProgressUpToTheEnd) {
  MakeOptions wanted = options("m.gguf", "f16");
  uint64_t last = 0;
  uint64_t total = 0;
  wanted.on_progress = [&](uint64_t written_bytes, uint64_t total_bytes) {
    EXPECT_GE(written_bytes, last);
    last = written_bytes;
    total = total_bytes;
  };
  make(wanted);
  EXPECT_EQ(last, total);
}

TEST_F(Make, KeepsWhatIsThereUnlessTold) {
  MakeOptions wanted = options("m.gguf", "f16");
  directory_.write("m.gguf", "precious");
  expect_refused(wanted, wanted.path + ": is there already");
  EXPECT_EQ(read_all(wanted.path), "precious");
  wanted.overwrite = true;
  EXPECT_TRUE(make(wanted).starts_with("GGUF"));
}

TEST_F(Make, ReplacesAllFilesOfAnOldDirectory) {
  MakeOptions wanted = options("", "bf16");
  wanted.format = Format::safetensors;
  wanted.overwrite = true;
  directory_.write("model.safetensors.index.json", "{}");
  directory_.write("notes.txt", "precious");
  make(wanted);
  EXPECT_FALSE(std::filesystem::exists(directory_.path("model.safetensors.index.json")));
  EXPECT_EQ(read_all(directory_.path("notes.txt")), "precious");
}

TEST_F(Make, RefusesWhatItCannotMake) {
  MakeOptions wanted = options("m.gguf", "q5_1");
  expect_refused(wanted, "there is no type 'q5_1' for gguf");
  wanted = options("model", "q8_0");
  wanted.format = Format::safetensors;
  expect_refused(wanted, "there is no type 'q8_0' for safetensors");
  wanted = options("m.gguf", "f16");
  wanted.size_bytes = MiB;
  expect_refused(wanted, "the size must be from 8.0 MiB to 16.0 TiB, not 1.0 MiB");
}

TEST_F(Make, FullDisksAreNamedWithTheBytesNeeded) {
  const std::string path = directory_.path("m.gguf");
  const Result<MadeFile> file = MadeFile::create(path, uint64_t{1} << 55);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message.rfind(
                path + ": no room for the file's 36028797018963968 bytes (32.0 PiB): ", 0),
            0u)
      << file.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path("")));
}

TEST(MakeShape, MeetsEverySizeWithSensibleDimensions) {
  EXPECT_TRUE(rc::check([] {
    const uint64_t size_bytes = *rc::gen::inRange<uint64_t>(8 * MiB, 700 * GiB);
    const GgmlType& type = *find_ggml_type(*rc::gen::element<uint32_t>(0, 1, 30, 8, 2, 12, 14));
    const LlamaShape shape = choose_llama_shape(size_bytes, type).value();
    uint64_t bytes = 0;
    for (const PlannedTensor& tensor : plan_llama_tensors(shape, Format::gguf)) {
      const GgmlType& stored = tensor.kind == WeightKind::norm ? *find_ggml_type(0) : type;
      RC_ASSERT(tensor.shape[0] % stored.block_elements == 0);
      bytes += PlacedTensor{tensor, &stored, 0}.size_bytes();
    }
    RC_ASSERT(std::abs(static_cast<double>(bytes) - static_cast<double>(size_bytes)) <
              0.02 * static_cast<double>(size_bytes));
    RC_ASSERT(shape.embedding_length % 256 == 0);
    RC_ASSERT(shape.feed_forward_length % 256 == 0);
    RC_ASSERT(shape.head_count % shape.head_count_kv == 0);
    RC_ASSERT(shape.head_count * shape.head_length == shape.embedding_length);
  }));
}

TEST(MakeVocabulary, TokensAreUniqueAndCoverAllBytes) {
  const std::vector<Token> tokens = make_vocabulary(32'000);
  ASSERT_EQ(tokens.size(), 32'000u);
  std::set<std::string> texts;
  uint64_t bytes = 0;
  for (const Token& token : tokens) {
    EXPECT_TRUE(texts.insert(token.text).second) << token.text;
    if (token.type == TokenType::byte) ++bytes;
  }
  EXPECT_EQ(bytes, 256u);
  EXPECT_EQ(tokens[token_unknown].text, "<unk>");
  EXPECT_EQ(tokens[token_begin].text, "<s>");
  EXPECT_EQ(tokens[token_end].text, "</s>");
}

TEST(MakeWeights, PiecesGiveTheSameWordsAsTheWhole) {
  EXPECT_TRUE(rc::check([] {
    const GgmlType& type = *find_ggml_type(*rc::gen::element<uint32_t>(0, 1, 30, 8, 2, 12, 14));
    const uint64_t seed = *rc::gen::arbitrary<uint64_t>();
    std::vector<uint64_t> whole(size_t{4} * type.block_bytes);
    fill_weights(type, WeightKind::matrix, seed, 0, whole);
    // block_bytes words are 8 blocks: the smallest piece that starts at a block's start.
    const size_t cut = type.block_bytes * *rc::gen::inRange<size_t>(0, 4);
    std::vector<uint64_t> pieces(whole.size());
    fill_weights(type, WeightKind::matrix, seed, cut, std::span(pieces).subspan(cut));
    fill_weights(type, WeightKind::matrix, seed, 0, std::span(pieces).first(cut));
    RC_ASSERT(pieces == whole);
  }));
}

TEST(MakeWeights, MatricesAreNoiseAroundZeroAndNormsAreNearOne) {
  std::vector<uint64_t> words(1 << 16);
  std::vector<float> values(2 * words.size());
  const auto fill = [&](WeightKind kind) {
    fill_weights(*find_ggml_type(0), kind, 1, 0, words);
    std::memcpy(values.data(), words.data(), values.size() * sizeof(float));
  };
  fill(WeightKind::matrix);
  double sum = 0;
  double sum_of_squares = 0;
  for (const float value : values) {
    sum += value;
    sum_of_squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 0.0002);
  EXPECT_NEAR(std::sqrt(sum_of_squares / count), 0.0137, 0.0002);
  fill(WeightKind::norm);
  for (const float value : values) {
    ASSERT_GE(value, 1.0F);
    ASSERT_LT(value, 1.0626F);
  }
}

}  // namespace
}  // namespace weightpager::model
