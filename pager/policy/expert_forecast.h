// Which experts come next, told by the stretch of the past that was most like the present.
//
// Problem. The expert that has to go should be the one that is needed again last. Nothing in a
// model's files says when an expert is needed, and how often or how lately it was used says little
// about that.
//
// Idea. Texts repeat themselves: words, phrases, whole lists. So the last `passes_max` passes are
// kept, as sets of experts by layer, and the present is compared with each of them. Where the last
// few layers used the same experts now as then, the next layers probably will, too. The pass that
// is most like the present, and those after it, are taken for the future. `likeness` says how far
// to trust that; it stays low where routing repeats nothing.
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

  /// The engine came to `layer`. `is_new_pass`: a pass has begun with that.
  void begin_visit(uint32_t layer, bool is_new_pass);
  /// The first use of this expert of that layer since then.
  void note_use(uint32_t expert);

  /// How much the last few layers are like the past that is taken for the future, from 0 to 1: how
  /// many experts were used both times, as a share of the experts used at the time that used more.
  double likeness() const { return passes_back_ == 0 ? 0 : likeness_[passes_back_]; }
  /// How many visits to layers it takes until the expert is used, if the past comes again: 1 for an
  /// expert of the next layer. `never`: not within the passes that are kept.
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
  /// Where in rows_ the pass lies that was `passes` passes before the current one.
  size_t row_begin(uint32_t passes) const {
    return static_cast<size_t>((pass_ - passes) % (passes_max + 1)) * words_;
  }
  /// The experts that the layer used in that pass, a bit each.
  std::span<const uint64_t> used(uint32_t passes, const LayerBits& layer) const;
  void end_visit();

  std::vector<LayerBits> layers_;
  std::vector<ExpertBit> bits_;  // by expert
  uint32_t words_ = 0;           // of a pass
  std::vector<uint64_t> rows_;   // by pass: a ring of passes_max + 1 passes
  uint64_t pass_ = 0;            // the current one
  uint32_t layer_ = 0;           // where the engine is
  bool is_at_layer_ = false;
  std::array<double, passes_max + 1> likeness_{};  // by passes back
  uint32_t passes_back_ = 0;                       // to the past taken for the future; 0: none yet
};

}  // namespace weightpager::policy
