// The figures and tables of "SwapNet: Efficient Swapping for DNN Inference on Edge AI Devices
// Beyond the Memory Budget", from what its text gives.
//
// Problem. The paper measures eleven networks on one board. Its text has their sizes, budgets, some
// latencies, and for most figures only from where to where the values go.
//
// Idea. Everything that follows from structure and equations is calculated (swapnet_inputs.h says
// from what): budgets, cuts, memory, and delays by the delay model. It stands beside the published
// values, and beside the best blocks of all. Nothing is measured.
//
// Cost: some seconds, most of it for the tables of all cuts.
#include "tools/commands/reproduce/paper.h"
#include "tools/commands/reproduce/swapnet_figures.h"

namespace weightpager::tools {

Paper swapnet_paper() {
  return {
      .name = "swapnet",
      .title =
          "SwapNet: Efficient Swapping for DNN Inference on Edge AI Devices Beyond the Memory "
          "Budget",
      .figures = {{"summary", "what the abstract says", swapnet::summary},
                  {"table-1", "memory of the self-driving vehicle", swapnet::table_1},
                  {"table-2", "layers of ResNet-101", swapnet::table_2},
                  {"figure-8", "reading, computing and letting go", swapnet::figure_8},
                  {"figure-9", "coefficients of the delay model", swapnet::figure_9},
                  {"figure-10", "timelines of blocks", swapnet::figure_10},
                  {"table-3", "the lookup table, and the best blocks", swapnet::table_3},
                  {"figure-11", "self-driving: budgets, memory, latency", swapnet::figure_11},
                  {"figure-12", "road-side unit: budgets, memory, latency", swapnet::figure_12},
                  {"figure-13", "UAV: budgets, memory, latency", swapnet::figure_13},
                  {"figure-14", "latency beyond everything in memory", swapnet::figure_14},
                  {"figure-15", "blocks of equal size instead of planned ones", swapnet::figure_15},
                  {"figure-16", "memory and latency by number of blocks", swapnet::figure_16},
                  {"figure-17", "another board", swapnet::figure_17},
                  {"figure-18", "budgets that change", swapnet::figure_18},
                  {"figure-19", "memory beside the blocks", swapnet::figure_19},
                  {"figure-11-here", "this machine: networks in blocks (Figures 11 to 13)",
                   swapnet::figure_11_here},
                  {"applications-here", "this machine: the three applications side by side",
                   swapnet::applications_here},
                  {"figure-15-here", "this machine: without zero copy, references, planned blocks",
                   swapnet::figure_15_here},
                  {"figure-16-here", "this machine: memory and delay by number of blocks",
                   swapnet::figure_16_here},
                  {"figure-18-here", "this machine: budgets that change", swapnet::figure_18_here},
                  {"figure-19-here", "this machine: power", swapnet::figure_19_here},
                  {"beyond", "best blocks, joint shares, half the budget", swapnet::beyond}}};
}

}  // namespace weightpager::tools
