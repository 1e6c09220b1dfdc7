// Noise that is a model's weights, at the speed of memory.
//
// Word n of a tensor is a hash of n. For floating point a word becomes weights by two operations on
// all of its lanes at once: keep each lane's sign, mantissa and two lowest exponent bits, add a
// constant exponent e. That gives magnitudes of 2^e to 2^(e+4), of either sign, with a standard
// deviation of 7 · 2^e. Quantised blocks are random bits with a scale, of random sign, that gives
// them the same deviation.
#include "pager/model/synthetic/weights.h"

#include <cstddef>
#include <cstring>

#include "pager/base/assert.h"

namespace weightpager::model {
namespace {

/// Makes the random bits of a word into elements: (bits & mask) + base.
struct WordFormat {
  uint64_t mask;
  uint64_t base;
};

constexpr uint64_t in_lanes(uint16_t lane) { return lane * 0x0001'0001'0001'0001u; }
constexpr uint64_t in_lanes(uint32_t lane) { return lane * 0x0000'0001'0000'0001u; }

/// The exponent e of the smallest weights: 2^e.
constexpr int smallest_exponent(WeightKind kind) { return kind == WeightKind::embedding ? -4 : -9; }

// Exponents are stored with a bias: 15 in F16 (5 bits), 127 in BF16 and F32 (8 bits).
constexpr uint16_t half_exponent(int exponent) {
  return static_cast<uint16_t>((15 + exponent) << 10);
}
constexpr uint16_t bf16_exponent(int exponent) {
  return static_cast<uint16_t>((127 + exponent) << 7);
}
constexpr uint32_t f32_exponent(int exponent) {
  return static_cast<uint32_t>(127 + exponent) << 23;
}

/// Mantissas below 1/16 and no sign: 1 to 1.06.
WordFormat norm_format(const GgmlType& type) {
  if (type.name == "F32") return {in_lanes(uint32_t{0x0007'ffff}), in_lanes(f32_exponent(0))};
  if (type.name == "F16") return {in_lanes(uint16_t{0x003f}), in_lanes(half_exponent(0))};
  WP_ASSERT(type.name == "BF16");
  return {in_lanes(uint16_t{0x0007}), in_lanes(bf16_exponent(0))};
}

WordFormat word_format(const GgmlType& type, WeightKind kind) {
  if (kind == WeightKind::norm) return norm_format(type);
  const int exponent = smallest_exponent(kind);
  if (type.name == "F32")
    return {in_lanes(uint32_t{0x81ff'ffff}), in_lanes(f32_exponent(exponent))};
  if (type.name == "F16") return {in_lanes(uint16_t{0x8fff}), in_lanes(half_exponent(exponent))};
  if (type.name == "BF16") return {in_lanes(uint16_t{0x81ff}), in_lanes(bf16_exponent(exponent))};
  return {~uint64_t{0}, 0};
}

/// SplitMix64's output function (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

constexpr uint64_t golden_ratio = 0x9e3779b97f4a7c15;

// --- quantised blocks ---------------------------------------------------------------------------
//
// In each, the quants are left as random bits and the scales are overwritten; a scale keeps the
// sign bit that was there, which puts the weights' mean at 0 although the quants' is not.

uint16_t load_half(const std::byte* place) {
  uint16_t half = 0;
  std::memcpy(&half, place, sizeof half);
  return half;
}

void store_half(std::byte* place, uint16_t half) { std::memcpy(place, &half, sizeof half); }

constexpr uint16_t half_sign = 0x8000;
constexpr uint16_t half_sign_and_mantissa = 0x83ff;

// `smallest` is the exponent e from above; the offsets from it make up for the quants' deviation.

/// d · q, q from -128 to 127.
void finish_q8_0(std::byte* block, int smallest) {
  const uint16_t scale = load_half(block) & half_sign_and_mantissa;
  store_half(block, scale | half_exponent(smallest - 4));
}

/// d · q, q from -8 to 7.
void finish_q4_0(std::byte* block, int smallest) {
  const uint16_t scale = load_half(block) & half_sign_and_mantissa;
  store_half(block, scale | half_exponent(smallest));
}

constexpr uint16_t mantissa_of_1_52 = 0x218;
constexpr uint16_t mantissa_of_1_43 = 0x1b6;

/// 8 groups of d · scale · q - d_min · min, q from 0 to 15. All scales and mins are 32, and d_min
/// is 7.5 d, so that the mean is 0.
void finish_q4_k(std::byte* block, int smallest) {
  const uint16_t sign = load_half(block) & half_sign;
  store_half(block, sign | half_exponent(smallest - 5) | mantissa_of_1_52);
  store_half(block + 2, sign | half_exponent(smallest - 2) | mantissa_of_1_43);
  // Six bits each of eight scales and eight mins, packed: the bytes 8 to 11 hold the low four bits
  // of the last four of both, whose high two bits are in the bytes 0 to 7.
  std::memset(block + 4, 32 | (32 >> 4) << 6, 8);
  std::memset(block + 12, 0, 4);
}

/// 16 groups of d · scale · q, q from -32 to 31: scales are 8 or -8.
void finish_q6_k(std::byte* block, int smallest) {
  constexpr size_t scales_offset = 128 + 64;
  constexpr size_t scales = 16;
  for (size_t i = 0; i < scales; ++i) {
    std::byte& scale = block[scales_offset + i];
    scale = (scale & std::byte{1}) != std::byte{0} ? std::byte{8} : static_cast<std::byte>(-8);
  }
  store_half(block + scales_offset + scales, half_exponent(smallest - 5) | mantissa_of_1_52);
}

using FinishBlock = void (*)(std::byte*, int);

/// Null for types that need none.
FinishBlock find_finish(const GgmlType& type) {
  if (type.name == "Q8_0") return finish_q8_0;
  if (type.name == "Q4_0") return finish_q4_0;
  if (type.name == "Q4_K") return finish_q4_k;
  if (type.name == "Q6_K") return finish_q6_k;
  return nullptr;
}

}  // namespace

bool can_make_weights(const GgmlType& type) {
  return type.name == "F32" || type.name == "F16" || type.name == "BF16" ||
         find_finish(type) != nullptr;
}

uint64_t tensor_seed(uint64_t model_seed, std::string_view tensor_name) {
  uint64_t seed = mix(model_seed + golden_ratio);
  for (const char character : tensor_name) seed = mix(seed ^ static_cast<unsigned char>(character));
  return seed;
}

void fill_weights(const GgmlType& type, WeightKind kind, uint64_t seed, uint64_t first_word,
                  std::span<uint64_t> words) {
  const WordFormat format = word_format(type, kind);
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = (mix(seed + (first_word + i) * golden_ratio) & format.mask) + format.base;

  const FinishBlock finish = find_finish(type);
  if (finish == nullptr) return;
  auto* const bytes = reinterpret_cast<std::byte*>(words.data());
  for (size_t offset = 0; offset + type.block_bytes <= words.size_bytes();
       offset += type.block_bytes)
    finish(bytes + offset, smallest_exponent(kind));
}

}  // namespace weightpager::model
