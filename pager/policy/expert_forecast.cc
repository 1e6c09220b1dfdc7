#include "pager/policy/expert_forecast.h"

#include <algorithm>
#include <bit>

#include "pager/base/assert.h"

namespace weightpager::policy {
namespace {

// The share of its weight that a visit's likeness keeps at each later visit: the last five or so
// decide.
constexpr double likeness_kept = 0.8;

uint32_t bits_in(std::span<const uint64_t> words) {
  uint32_t count = 0;
  for (const uint64_t word : words) count += static_cast<uint32_t>(std::popcount(word));
  return count;
}

}  // namespace

void ExpertForecast::reset(std::span<const uint32_t> layers) {
  layers_.clear();
  bits_.clear();
  words_ = 0;
  for (uint32_t expert = 0; expert < layers.size(); ++expert) {
    while (layers_.size() <= layers[expert]) layers_.push_back({expert, words_, 0});
    LayerBits& layer = layers_.back();
    const uint32_t number = expert - layer.first_expert;
    if (number % 64 == 0) ++layer.words, ++words_;
    bits_.push_back({layers[expert], layer.first_word + number / 64, uint64_t{1} << number % 64});
  }
  rows_.assign(size_t{passes_max + 1} * words_, 0);
  pass_ = 0;
  layer_ = 0;
  is_at_layer_ = false;
  likeness_.fill(0);
  passes_back_ = 0;
}

std::span<const uint64_t> ExpertForecast::used(uint32_t passes, const LayerBits& layer) const {
  WP_ASSERT(passes <= passes_max && passes <= pass_);
  return std::span(rows_).subspan(row_begin(passes) + layer.first_word, layer.words);
}

void ExpertForecast::begin_visit(uint32_t layer, bool is_new_pass) {
  if (is_at_layer_) end_visit();
  if (is_at_layer_ && is_new_pass) {
    ++pass_;
    std::ranges::fill(std::span(rows_).subspan(row_begin(0), words_), 0);
  }
  is_at_layer_ = true;
  layer_ = layer;
}

void ExpertForecast::note_use(uint32_t expert) {
  rows_[row_begin(0) + bits_[expert].word] |= bits_[expert].bit;
}

// All that the layer used is known now, so the kept passes can be compared with this one.
void ExpertForecast::end_visit() {
  const auto now = used(0, layers_[layer_]);
  const uint32_t count_now = bits_in(now);
  const auto passes = static_cast<uint32_t>(std::min<uint64_t>(passes_max, pass_));
  for (uint32_t back = 1; back <= passes; ++back) {
    const auto then = used(back, layers_[layer_]);
    uint32_t both = 0;
    for (size_t word = 0; word < now.size(); ++word) {
      both += static_cast<uint32_t>(std::popcount(now[word] & then[word]));
    }
    const uint32_t more = std::max(count_now, bits_in(then));
    if (more == 0) continue;
    likeness_[back] += (1 - likeness_kept) * (static_cast<double>(both) / more - likeness_[back]);
  }
  const auto first = likeness_.begin() + 1;
  if (passes > 0) {
    passes_back_ = 1 + static_cast<uint32_t>(std::max_element(first, first + passes) - first);
  }
}

uint32_t ExpertForecast::visits_until(uint32_t expert) const {
  const ExpertBit& bit_of = bits_[expert];
  // The engine's own layer and the layers behind it come again in the next pass only.
  const bool is_ahead = bit_of.layer > layer_;
  uint32_t visits = bit_of.layer + (is_ahead ? 0 : layer_count()) - layer_;
  for (uint32_t passes = passes_back_; passes > 0; --passes, visits += layer_count()) {
    const uint32_t then = is_ahead ? passes : passes - 1;
    if (rows_[row_begin(then) + bit_of.word] & bit_of.bit) return visits;
  }
  return never;
}

}  // namespace weightpager::policy
