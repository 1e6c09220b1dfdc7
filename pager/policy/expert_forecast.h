// Which experts come next, told by the stretch of the past that was most like the present.
//
// Problem. Whoever has to go should be the one that is needed again last. Nothing in a model's
// files says when that is, and how often or how lately an expert was used says little about it.
//
// Idea. Texts repeat themselves: words, phrases, whole lists. So the passes of the last while are
// kept, as sets of experts by layer, and each is laid beside the present, so many passes back.
// Where the last few layers used the same experts now as then, it is likely that the next ones
// will, too. The past that was most alike is taken for the future; how much alike, `likeness`, says
// what that is worth, and routing that repeats nothing is never much alike.
//
// A pure state machine, part of ExpertCache; allocates only in `reset`. Cost: a visit to a layer
// compares `passes_max` sets of bits; a question about one expert looks at no more bits than that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weightpager::policy {

class ExpertForecast {
 public:
  static constexpr uint32_t never = UINT32_MAX;

  /// Forgets everything. `layers`: each expert's, ascending from 0.
  void reset(std::span<const uint32_t> layers);

  /// The engine came to a layer; whether a pass has begun with that.
  void begin_visit(uint32_t layer, bool is_new_pass);
  /// First use of an expert of that layer since then.
  void note_use(uint32_t expert);

  /// Of the experts that lately were used, now or in the past that is taken for the future, the
  /// share that was used both times: 0 to 1.
  double likeness() const { return passes_back_ == 0 ? 0 : likeness_[passes_back_]; }
  /// After how many more visits to layers the expert is used, if the past comes again: 1 for one
  /// of the next layer. `never`: not as far as this can see.
  uint32_t visits_until(uint32_t expert) const;

 private:
  static constexpr uint32_t passes_max = 16;

  struct LayerBits {
    uint32_t first_expert = 0;
    uint32_t first_word = 0;
    uint32_t words = 0;
  };
  struct ExpertBit {
    uint32_t layer = 0;
    uint32_t word = 0;
    uint64_t bit = 0;
  };

  uint32_t layer_count() const { return static_cast<uint32_t>(layers_.size()); }
  /// Where in rows_ the pass is that was `passes` before the one that goes on.
  size_t row_begin(uint32_t passes) const {
    return static_cast<size_t>((pass_ - passes) % (passes_max + 1)) * words_;
  }
  /// The experts that a layer used then, a bit each.
  std::span<const uint64_t> used(uint32_t passes, const LayerBits& layer) const;
  void end_visit();

  std::vector<LayerBits> layers_;
  std::vector<ExpertBit> bits_;  // by expert
  uint32_t words_ = 0;           // of a pass
  std::vector<uint64_t> rows_;   // passes_max + 1 of them, by pass, in turns
  uint64_t pass_ = 0;            // the one that goes on
  uint32_t layer_ = 0;           // where the engine is
  bool is_at_layer_ = false;
  std::array<double, passes_max + 1> likeness_{};  // by passes back
  uint32_t passes_back_ = 0;                       // the past that is taken for the future
};

}  // namespace weightpager::policy
