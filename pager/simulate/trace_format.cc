#include "pager/simulate/trace_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weightpager::simulate {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char magic[8] = {'W', 'P', 'T', 'R', 'A', 'C', 'E', '\n'};
constexpr uint32_t format_version = 3;
constexpr uint32_t version_with_shared = 2;
constexpr uint32_t version_with_threads = 3;
constexpr uint32_t threads_max = 4096;
constexpr uint64_t name_bytes_max = 4096;
// 32 TiB in chunks of 2 MiB. There is a bound because memory for all chunks is allocated at once.
constexpr uint64_t chunks_max = 1u << 24;

struct Head {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t length_bytes;
  uint64_t checksum;
};
static_assert(sizeof(Head) == 32);

const char* const damage_hint = "record or make the trace again: a part of a trace is not one";

// ---- Writing ----

class Writer {
 public:
  void put(uint64_t number) {
    for (; number >= 0x80; number >>= 7) put_byte(static_cast<uint8_t>(number | 0x80));
    put_byte(static_cast<uint8_t>(number));
  }
  void put_step(uint64_t number, uint64_t& before) {
    const auto step = static_cast<int64_t>(number - std::exchange(before, number));
    put((static_cast<uint64_t>(step) << 1) ^ static_cast<uint64_t>(step >> 63));
  }
  template <typename Number>
  void put_list(const std::vector<Number>& numbers) {
    put(numbers.size());
    uint64_t before = 0;
    for (const Number number : numbers) put_step(number, before);
  }
  void put_text(const std::string& text) {
    put(text.size());
    for (const char letter : text) put_byte(static_cast<uint8_t>(letter));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void put_byte(uint8_t byte) { bytes_.push_back(std::byte{byte}); }
  std::vector<std::byte> bytes_;
};

void put_experts(const std::vector<policy::ExpertChunks>& experts, Writer& writer) {
  writer.put(experts.size());
  uint64_t before = 0;
  for (const policy::ExpertChunks& expert : experts) {
    writer.put(expert.layer);
    writer.put(expert.slabs.size());
    for (const auto& slab : expert.slabs) {
      writer.put(slab.size());
      for (const policy::ChunkPart& part : slab) {
        writer.put_step(part.chunk, before);
        writer.put(part.begin_bytes);
        writer.put(part.end_bytes);
      }
    }
  }
}

void put_parts(const Trace& trace, Writer& writer) {
  writer.put(trace.threads);
  writer.put(trace.parts.size());
  uint64_t before = 0;
  for (const ThreadPart& part : trace.parts) {
    writer.put_step(part.begin, before);
    const uint64_t thread = part.thread == any_thread ? 0 : uint64_t{part.thread} + 1;
    writer.put(2 * thread + part.is_met);
  }
}

// ---- Reading ----

/// Once something is wrong, everything reads as 0, and is_sound() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool is_sound() const { return is_sound_; }
  bool is_at_end() const { return at_ == bytes_.size(); }
  size_t offset() const { return at_; }

  uint64_t take() {
    uint64_t number = 0;
    for (uint32_t shift = 0; is_sound_; shift += 7) {
      if (at_ == bytes_.size() || shift > 63) return give_up();
      const auto byte = std::to_integer<uint64_t>(bytes_[at_++]);
      const uint64_t bits = byte & 0x7f;
      if (shift == 63 && bits > 1) return give_up();
      number |= bits << shift;
      if (byte < 0x80) return number;
    }
    return 0;
  }
  uint64_t take_step(uint64_t& before) {
    const uint64_t coded = take();
    before += (coded >> 1) ^ (~(coded & 1) + 1);
    return before;
  }
  uint32_t take_32(uint64_t number) {
    if (number > UINT32_MAX) give_up();
    return static_cast<uint32_t>(number);
  }
  /// How many items follow, each of at least `bytes_each` bytes. A count that needs more bytes than
  /// there are is wrong.
  uint64_t take_count(uint64_t bytes_each) {
    const uint64_t count = take();
    return count > (bytes_.size() - at_) / bytes_each ? give_up() : count;
  }
  template <typename Number>
  std::vector<Number> take_list() {
    std::vector<Number> numbers(take_count(1));
    uint64_t before = 0;
    for (Number& number : numbers) {
      const uint64_t value = take_step(before);
      number = static_cast<Number>(value);
      if (number != value) give_up();
    }
    return numbers;
  }
  std::string take_text() {
    const uint64_t length = take_count(1);
    if (length > name_bytes_max) give_up();
    if (!is_sound_) return {};
    const auto* const text = reinterpret_cast<const char*>(bytes_.data() + at_);
    at_ += length;
    return {text, length};
  }

 private:
  uint64_t give_up() {
    is_sound_ = false;
    return 0;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool is_sound_ = true;
};

std::vector<policy::ExpertChunks> take_experts(Reader& reader) {
  std::vector<policy::ExpertChunks> experts(reader.take_count(2));
  uint64_t before = 0;
  for (policy::ExpertChunks& expert : experts) {
    expert.layer = reader.take_32(reader.take());
    expert.slabs.resize(reader.take_count(1));
    for (auto& slab : expert.slabs) {
      slab.resize(reader.take_count(3));
      for (policy::ChunkPart& part : slab) {
        part.chunk = reader.take_32(reader.take_step(before));
        part.begin_bytes = reader.take_32(reader.take());
        part.end_bytes = reader.take_32(reader.take());
      }
    }
  }
  return experts;
}

std::vector<ThreadPart> take_parts(Reader& reader) {
  std::vector<ThreadPart> parts(reader.take_count(2));
  uint64_t before = 0;
  for (ThreadPart& part : parts) {
    part.begin = reader.take_step(before);
    const uint64_t coded = reader.take();
    part.is_met = coded % 2 == 1;
    part.thread = coded < 2 ? any_thread : reader.take_32(coded / 2 - 1);
  }
  return parts;
}

std::vector<Touch> take_touches(Reader& reader) {
  std::vector<Touch> touches(reader.take_count(3));
  uint64_t before = 0;
  for (Touch& touch : touches) {
    touch.chunk = reader.take_32(reader.take_step(before));
    const uint64_t offset = reader.take();
    touch.offset_bytes = offset == 0 ? policy::anywhere : reader.take_32(offset - 1);
    touch.compute_ns = reader.take();
  }
  return touches;
}

template <typename Number>
bool is_ascending_below(const std::vector<Number>& numbers, uint64_t end) {
  return std::is_sorted(numbers.begin(), numbers.end(), std::less_equal<>()) &&
         (numbers.empty() || numbers.back() < end);
}

// What is wrong with a part of a trace; empty if nothing is.
std::string wrong_sizes(const Trace& trace) {
  if (!is_chunk_size(trace.chunk_bytes)) {
    return fmt::format("chunks of {} bytes; expected a power of two from {} to {}",
                       trace.chunk_bytes, chunk_bytes_min, chunk_bytes_max);
  }
  if (trace.chunks == 0 || trace.chunks > chunks_max) {
    return fmt::format("{} chunks, expected 1 to {}", trace.chunks, chunks_max);
  }
  return {};
}

// Sets the flags in `is_cyclic`, one for each chunk, of the chunks in the order.
std::string wrong_order(const Trace& trace, std::vector<bool>& is_cyclic) {
  for (const ChunkId chunk : trace.order.cyclic) {
    if (chunk >= trace.chunks || is_cyclic[chunk]) {
      return fmt::format("the order has chunk {} twice, or of {}", chunk, trace.chunks);
    }
    is_cyclic[chunk] = true;
  }
  if (!is_ascending_below(trace.order.layer_begins, trace.order.cyclic.size())) {
    return "layers begin outside of the order";
  }
  const auto is_missing = [&](ChunkId chunk) { return chunk >= trace.chunks || !is_cyclic[chunk]; };
  const auto& revisited = trace.order.revisited;
  const auto& shared = trace.order.shared;
  if (const auto it = std::ranges::find_if(revisited, is_missing); it != revisited.end()) {
    return fmt::format("chunk {} is revisited, and not in the order", *it);
  }
  // The first chunk has nothing before it, and the last one nothing behind it.
  const auto is_no_border = [&](ChunkId chunk) {
    return chunk == 0 || chunk + 1 >= trace.chunks || is_missing(chunk);
  };
  if (const auto it = std::ranges::find_if(shared, is_no_border); it != shared.end()) {
    return fmt::format("chunk {} is shared by two tensors, and not within the order", *it);
  }
  return {};
}

std::string wrong_experts(const Trace& trace, const std::vector<bool>& is_cyclic) {
  const auto is_fine = [&](const policy::ChunkPart& part) {
    return part.chunk < trace.chunks && !is_cyclic[part.chunk] &&
           part.begin_bytes < part.end_bytes && part.end_bytes <= trace.chunk_bytes;
  };
  uint32_t layer = 0;
  for (const policy::ExpertChunks& expert : trace.order.experts) {
    if (expert.layer < layer) return "experts are not in the order of layers";
    layer = expert.layer;
    for (const auto& slab : expert.slabs) {
      const auto bad = std::find_if_not(slab.begin(), slab.end(), is_fine);
      if (bad != slab.end()) return fmt::format("chunk {} cannot be an expert's", bad->chunk);
    }
  }
  return {};
}

std::string wrong_touches(const Trace& trace) {
  for (size_t place = 0; place < trace.touches.size(); ++place) {
    const Touch& touch = trace.touches[place];
    const bool is_inside =
        touch.offset_bytes == policy::anywhere || touch.offset_bytes < trace.chunk_bytes;
    if (touch.chunk >= trace.chunks || !is_inside) {
      return fmt::format("touch {} is of chunk {}, byte {}; there are {} chunks of {}", place,
                         touch.chunk, touch.offset_bytes, trace.chunks, trace.chunk_bytes);
    }
  }
  const bool has_passes = !trace.pass_begins.empty() && trace.pass_begins.front() == 0;
  if (!has_passes || !is_ascending_below(trace.pass_begins, trace.touches.size())) {
    return "passes begin outside of the touches";
  }
  return {};
}

std::string wrong_parts(const Trace& trace) {
  if (trace.threads == 0 || trace.threads > threads_max) {
    return fmt::format("{} threads, expected 1 to {}", trace.threads, threads_max);
  }
  if (trace.parts.empty() != (trace.threads == 1)) {
    return fmt::format("{} parts of {} threads", trace.parts.size(), trace.threads);
  }
  auto pass = trace.pass_begins.begin();
  uint64_t end = 0;  // of the part before, at least
  for (const ThreadPart& part : trace.parts) {
    const bool is_first = end == 0;
    if (is_first ? part.begin != 0 : part.begin < end) return "parts begin in no order";
    end = part.begin + 1;
    if (part.begin >= trace.touches.size()) return "a part begins outside of the touches";
    if (part.thread != any_thread && part.thread >= trace.threads) {
      return fmt::format("a part is of thread {}, of {}", part.thread, trace.threads);
    }
    const bool begins_pass = pass != trace.pass_begins.end() && part.begin == *pass;
    if (begins_pass && !part.is_met) return "threads do not meet where a pass begins";
    if (begins_pass) ++pass;
  }
  const bool has_all = trace.parts.empty() || pass == trace.pass_begins.end();
  return has_all ? "" : "a pass begins within a part";
}

std::string whatever_is_wrong(const Trace& trace) {
  if (std::string wrong = wrong_sizes(trace); !wrong.empty()) return wrong;
  std::vector<bool> is_cyclic(trace.chunks, false);
  if (std::string wrong = wrong_order(trace, is_cyclic); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_experts(trace, is_cyclic); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_touches(trace); !wrong.empty()) return wrong;
  return wrong_parts(trace);
}

}  // namespace

std::vector<std::byte> encode(const Trace& trace) {
  Writer writer;
  writer.put_text(trace.name);
  writer.put(trace.chunk_bytes);
  writer.put(trace.chunks);
  writer.put_list(trace.order.cyclic);
  writer.put_list(trace.order.layer_begins);
  writer.put_list(trace.order.revisited);
  writer.put_list(trace.order.shared);
  put_experts(trace.order.experts, writer);
  writer.put_list(trace.pass_begins);
  const bool has_threads = trace.threads > 1;
  if (has_threads) put_parts(trace, writer);
  writer.put(trace.touches.size());
  uint64_t before = 0;
  for (const Touch& touch : trace.touches) {
    writer.put_step(touch.chunk, before);
    writer.put(touch.offset_bytes == policy::anywhere ? 0 : uint64_t{touch.offset_bytes} + 1);
    writer.put(touch.compute_ns);
  }
  const std::vector<std::byte>& body = writer.bytes();
  const uint32_t version = has_threads ? version_with_threads : version_with_shared;
  Head head{{}, version, 0, body.size(), XXH3_64bits(body.data(), body.size())};
  std::memcpy(head.magic, magic, sizeof magic);
  std::vector<std::byte> bytes(sizeof head + body.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::copy(body.begin(), body.end(), bytes.begin() + sizeof head);
  return bytes;
}

bool looks_like_trace(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof magic && std::memcmp(bytes.data(), magic, sizeof magic) == 0;
}

Result<Trace> decode(std::span<const std::byte> bytes, const std::string& name) {
  Head head{};
  if (!looks_like_trace(bytes) || bytes.size() < sizeof head) {
    return fail(fmt::format("{}: {} bytes that do not begin as a trace", name, bytes.size()),
                "`weightpager run --record FILE` and `weightpager trace make` write traces");
  }
  std::memcpy(&head, bytes.data(), sizeof head);
  const bool is_known = head.version >= 1 && head.version <= format_version;
  if (!is_known || head.zero != 0) {
    return fail(fmt::format("{}, byte 8: a trace of version {}, expected 1 to {}", name,
                            head.version, format_version),
                "it is from another version of weightpager");
  }
  const auto body = bytes.subspan(sizeof head);
  if (head.length_bytes != body.size()) {
    return fail(fmt::format("{}: {} bytes follow the head, expected {}", name, body.size(),
                            head.length_bytes),
                damage_hint);
  }
  if (XXH3_64bits(body.data(), body.size()) != head.checksum) {
    return fail(fmt::format("{}: bytes {} to {} do not match their checksum", name, sizeof head,
                            bytes.size()),
                damage_hint);
  }

  Reader reader(body);
  Trace trace;
  trace.name = reader.take_text();
  trace.chunk_bytes = reader.take();
  trace.chunks = reader.take_32(reader.take());
  trace.order.cyclic = reader.take_list<ChunkId>();
  trace.order.layer_begins = reader.take_list<uint32_t>();
  trace.order.revisited = reader.take_list<ChunkId>();
  if (head.version >= version_with_shared) trace.order.shared = reader.take_list<ChunkId>();
  trace.order.experts = take_experts(reader);
  trace.pass_begins = reader.take_list<uint64_t>();
  if (head.version >= version_with_threads) {
    trace.threads = reader.take_32(reader.take());
    trace.parts = take_parts(reader);
  }
  trace.touches = take_touches(reader);
  if (!reader.is_sound() || !reader.is_at_end()) {
    return fail(fmt::format("{}, byte {}: not the number that a trace has there", name,
                            sizeof head + reader.offset()),
                damage_hint);
  }
  if (auto sound = check(trace, name); !sound) return forward_error(std::move(sound));
  return trace;
}

Status check(const Trace& trace, const std::string& name) {
  const std::string wrong = whatever_is_wrong(trace);
  return wrong.empty() ? Status() : fail(fmt::format("{}: {}", name, wrong), damage_hint);
}

}  // namespace weightpager::simulate
