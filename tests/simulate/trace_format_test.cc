// A trace comes back as it was, and a damaged one not at all.
#include "pager/simulate/trace_format.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <span>

#include "tests/simulate/random_trace.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weightpager::simulate {
namespace {

void expect_refused(const Trace& trace, const std::string& why) {
  const auto read = decode(encode(trace), "bad.trace");
  ASSERT_FALSE(read.has_value()) << why;
  EXPECT_NE(read.error().message.find(why), std::string::npos) << read.error().message;
  EXPECT_NE(read.error().message.find("bad.trace"), std::string::npos);
  EXPECT_FALSE(read.error().hint.empty());
}

RC_GTEST_PROP(TraceFormat, ComesBackAsItWas, ()) {
  const Trace trace = any_trace();
  const auto bytes = encode(trace);
  const auto read = decode(bytes, "test");
  RC_ASSERT(read.has_value());
  RC_ASSERT(encode(*read) == bytes);
  RC_ASSERT(read->name == trace.name && read->chunks == trace.chunks);
  RC_ASSERT(read->touched_chunks() == trace.touched_chunks());
  RC_ASSERT(read->compute_ns() == trace.compute_ns());
  RC_ASSERT(read->pass_begins == trace.pass_begins);
  RC_ASSERT(read->order.cyclic == trace.order.cyclic);
  RC_ASSERT(read->order.layer_begins == trace.order.layer_begins);
  RC_ASSERT(read->order.experts.size() == trace.order.experts.size());
}

RC_GTEST_PROP(TraceFormat, AnyDamageIsRefused, ()) {
  std::vector<std::byte> bytes = encode(any_trace());
  const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
  bytes[at] ^= std::byte{*rc::gen::inRange<uint8_t>(1, 255)};
  RC_ASSERT(!decode(bytes, "test").has_value());
}

RC_GTEST_PROP(TraceFormat, AnyPartIsRefused, ()) {
  std::vector<std::byte> bytes = encode(any_trace());
  bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size()));
  RC_ASSERT(!decode(bytes, "test").has_value());
}

/// Replaces what lies behind the head, with a length and a checksum that match.
std::vector<std::byte> sealed(std::span<const std::byte> body) {
  std::vector<std::byte> bytes = encode(dense(1, 1, 1));
  bytes.resize(32);
  const uint64_t length = body.size();
  const uint64_t checksum = XXH3_64bits(body.data(), body.size());
  std::memcpy(bytes.data() + 16, &length, sizeof length);
  std::memcpy(bytes.data() + 24, &checksum, sizeof checksum);
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

// Whoever knows how to make the checksum right gets a sound trace or an error, and nothing else.
RC_GTEST_PROP(TraceFormat, WhatIsSealedIsStillChecked, ()) {
  const std::vector<std::byte> sound = encode(any_trace());
  std::vector<std::byte> body(sound.begin() + 32, sound.end());
  const auto changes = *rc::gen::inRange(1, 8);
  for (int i = 0; i < changes; ++i) {
    body[*rc::gen::inRange<size_t>(0, body.size())] = std::byte{*rc::gen::arbitrary<uint8_t>()};
  }
  const auto read = decode(sealed(body), "test");
  if (read) RC_ASSERT(check(*read, "test").has_value());
}

TEST(TraceFormat, ACountThatCannotBeIsRefusedBeforeAllocating) {
  // An empty name, 2 MiB, one chunk, and 2^56 chunks in the order.
  std::vector<std::byte> body;
  for (const int byte :
       {0, 0x80, 0x80, 0x80, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}) {
    body.push_back(static_cast<std::byte>(byte));
  }
  const auto read = decode(sealed(body), "test");
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("not the number"), std::string::npos) << read.error().message;
}

TEST(TraceFormat, MoreThanATraceIsRefused) {
  auto bytes = encode(dense(2, 3, 2));
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode(bytes, "test").has_value());
}

TEST(TraceFormat, SixBytesATouch) {
  const Trace trace = dense(20, 20, 50);
  EXPECT_LT(encode(trace).size(), 6.5 * static_cast<double>(trace.touches.size()));
}

TEST(TraceFormat, AnotherVersionIsNamed) {
  auto bytes = encode(dense(2, 3, 2));
  bytes[8] = std::byte{9};
  const auto read = decode(bytes, "test");
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("version 9"), std::string::npos) << read.error().message;
}

TEST(TraceFormat, ContradictionsAreRefused) {
  const Trace sound = dense(2, 3, 2);
  Trace trace = sound;
  trace.touches[3].chunk = trace.chunks;
  expect_refused(trace, "touch 3 is of chunk 6");
  trace = sound;
  trace.touches[3].offset_bytes = chunk_bytes_max;
  expect_refused(trace, "touch 3");
  trace = sound;
  trace.order.cyclic[1] = trace.order.cyclic[0];
  expect_refused(trace, "the order has chunk 0 twice");
  trace = sound;
  trace.order.layer_begins = {0, 6};
  expect_refused(trace, "layers begin outside of the order");
  trace = sound;
  trace.order.cyclic.pop_back();
  trace.order.revisited = {5};
  expect_refused(trace, "chunk 5 is revisited");
  for (const ChunkId chunk : {0, 5, 6}) {
    trace = sound;
    trace.order.shared = {chunk};
    expect_refused(trace, "is shared by two tensors");
  }
  trace = sound;
  trace.pass_begins = {0, 12};
  expect_refused(trace, "passes begin");
  trace = sound;
  trace.pass_begins = {1};
  expect_refused(trace, "passes begin");
  trace = sound;
  trace.pass_begins = {0, 4, 4};
  expect_refused(trace, "passes begin");
  trace = sound;
  trace.chunk_bytes = 3 * MiB;
  expect_refused(trace, "chunks of 3145728 bytes");
  trace = sound;
  trace.chunks = 0;
  expect_refused(trace, "0 chunks");
  trace = sound;
  trace.order.experts = {{.layer = 0, .slabs = {{{0, 0, 1}}}}};
  expect_refused(trace, "chunk 0 cannot be an expert's");
}

}  // namespace
}  // namespace weightpager::simulate
