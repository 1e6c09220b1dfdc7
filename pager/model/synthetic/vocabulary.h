// A vocabulary for made models: any text becomes tokens, any tokens become text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weightpager::model {

/// What a token is to a SentencePiece tokenizer, with the numbers that GGUF has for it.
enum class TokenType : int32_t { normal = 1, unknown = 2, control = 3, byte = 6 };

struct Token {
  std::string text;
  /// Higher is joined first.
  float score = 0;
  TokenType type = TokenType::normal;
};

inline constexpr uint32_t token_unknown = 0;
inline constexpr uint32_t token_begin = 1;
inline constexpr uint32_t token_end = 2;

/// `size` different tokens: <unk>, <s>, </s>, all bytes, letters, then made-up words. Requires at
/// least 416.
std::vector<Token> make_vocabulary(uint64_t size);

}  // namespace weightpager::model
