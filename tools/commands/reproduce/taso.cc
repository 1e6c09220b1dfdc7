// The figures and tables of Wen et al., "TASO: Time and Space Optimization for Memory-Constrained
// DNN Inference" (2020). Figures 3 and 4 are drawings without values.
#include "tools/commands/reproduce/paper.h"
#include "tools/commands/reproduce/taso_figures.h"

namespace weightpager::tools {

Paper taso_paper() {
  return {.name = "taso",
          .title = "TASO: Time and Space Optimization for Memory-Constrained DNN Inference",
          .figures = {
              {"figure-1", "GoogLeNet by one primitive everywhere, this machine", taso::figure_1},
              {"figure-2", "the largest layer's memory, by primitive", taso::figure_2},
              {"table-1", "how long solvers take, this machine", taso::table_1},
              {"figure-5", "time and memory of five networks, this machine", taso::figure_5},
              {"figure-6", "both strategies' fronts: GoogLeNet, this machine", taso::figure_6},
              {"figure-7", "both strategies' fronts: AlexNet, this machine", taso::figure_7},
              {"figure-8", "both strategies' fronts: SqueezeNet, this machine", taso::figure_8},
              {"figure-9", "both strategies' fronts: VGG-D, this machine", taso::figure_9},
              {"resnet", "both strategies' fronts: ResNet-50, this machine", taso::resnet_fronts},
              {"figure-10", "exact against greedy, GoogLeNet, this machine", taso::figure_10},
              {"runs", "figure 5a by running the networks, this machine", taso::runs},
              {"beyond", "the same speed in less memory, this machine", taso::beyond}}};
}

}  // namespace weightpager::tools
