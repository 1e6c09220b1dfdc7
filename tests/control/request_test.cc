// What clients may say, and what they are told where they may not.
#include "pager/control/request.h"

#include <gtest/gtest.h>

#include "pager/control/layer_list.h"

namespace weightpager::control {
namespace {

TEST(Request, HasANameAndScalars) {
  const auto request = parse_request(R"({"version":1,"request":"set","window":"6GiB","model":2})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->name(), "set");
  EXPECT_EQ(**request->text("window"), "6GiB");
  EXPECT_EQ(**request->number("model"), 2u);
  EXPECT_FALSE(*request->text("policy"));
  EXPECT_TRUE(request->expect_only({"window", "model"}));
  const auto strange = request->expect_only({"window"});
  ASSERT_FALSE(strange);
  EXPECT_NE(strange.error().message.find("unknown key 'model'"), std::string::npos);
}

TEST(Request, VersionMayBeMissing) { EXPECT_TRUE(parse_request(R"({"request":"stat"})")); }

TEST(Request, RefusesWhatIsNoRequest) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "byte 0"},
      {"stat", "byte"},
      {"[]", "an array"},
      {"1", "expected an object"},
      {R"({"request":"stat"} x)", "byte"},
      {R"({"request":{"a":1}})", "an object"},
      {R"({"request":["stat"]})", "an array"},
      {R"({"request":"a","request":"b"})", "request"},
      {R"({"version":2,"request":"stat"})", "version 2"},
      {R"({"version":-1,"request":"stat"})", "version"},
      {R"({"version":"1","request":"stat"})", "version"},
      {R"({"version":1})", "no \"request\""},
      {R"({"request":7})", "expected a text"},
  };
  for (const auto& [line, why] : wrong) {
    const auto request = parse_request(line);
    ASSERT_FALSE(request) << line;
    EXPECT_NE(request.error().message.find(why), std::string::npos)
        << line << ": " << request.error().message;
  }
}

TEST(Request, DeepNestingTakesNoStack) {
  EXPECT_FALSE(parse_request(std::string(4000, '[')));
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_request(objects));
}

TEST(LayerList, NamesLayersAsPeopleDo) {
  using Layers = std::vector<uint32_t>;
  EXPECT_EQ(*parse_layers("layers:0-3", 8, "pin"), (Layers{0, 1, 2, 3}));
  EXPECT_EQ(*parse_layers("layers:7,0-1,1", 8, "pin"), (Layers{0, 1, 7}));
  EXPECT_EQ(*parse_layers("all", 3, "pin"), (Layers{0, 1, 2}));
  EXPECT_EQ(*parse_layers("none", 3, "pin"), Layers{});
  for (const char* wrong : {"", "0-3", "layers:", "layers:8", "layers:3-2", "layers:1,",
                            "layers:-1", "layers:0-3x", "layers:99999999999"}) {
    const auto layers = parse_layers(wrong, 8, "pin");
    ASSERT_FALSE(layers) << wrong;
    EXPECT_NE(layers.error().message.find("pin:"), std::string::npos);
  }
}

}  // namespace
}  // namespace weightpager::control
