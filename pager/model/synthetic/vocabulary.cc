// Words are counted through, syllable by syllable: "ba", "be", … "zu", "baba", … Each comes alone
// and with the mark of a word's beginning. A word's parts are words, too, so the tokenizer, which
// joins neighbours, gets to all of them.
#include "pager/model/synthetic/vocabulary.h"

#include <fmt/format.h>

#include <string_view>

#include "pager/base/assert.h"

namespace weightpager::model {
namespace {

/// SentencePiece's stand-in for a space.
constexpr std::string_view word_mark = "\u2581";

std::string syllable(uint64_t number) {
  constexpr std::string_view consonants = "bcdfghjklmnpqrstvwxyz";
  constexpr std::string_view vowels = "aeiou";
  return {consonants[number / vowels.size() % consonants.size()], vowels[number % vowels.size()]};
}

constexpr uint64_t syllables = uint64_t{21} * 5;

/// Bijective: every number gives another word.
std::string word(uint64_t number) {
  std::string text;
  for (uint64_t rest = number + 1; rest > 0; rest = (rest - 1) / syllables)
    text.insert(0, syllable((rest - 1) % syllables));
  return text;
}

}  // namespace

std::vector<Token> make_vocabulary(uint64_t size) {
  std::vector<Token> tokens{{"<unk>", 0, TokenType::unknown},
                            {"<s>", 0, TokenType::control},
                            {"</s>", 0, TokenType::control}};
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back({fmt::format("<0x{:02X}>", byte), 0, TokenType::byte});

  const uint64_t first_normal = tokens.size();
  const auto add = [&](std::string text) {
    const auto rank = static_cast<float>(tokens.size() - first_normal);
    tokens.push_back({std::move(text), -rank, TokenType::normal});
  };
  add(std::string(word_mark));
  for (char character = '!'; character <= '~'; ++character) add(std::string(1, character));
  WP_ASSERT(tokens.size() <= size);
  for (uint64_t number = 0; tokens.size() < size; ++number) {
    add(word(number));
    if (tokens.size() < size) add(std::string(word_mark) + word(number));
  }
  return tokens;
}

}  // namespace weightpager::model
