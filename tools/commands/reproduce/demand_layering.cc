// The figures and tables of "Demand Layering for Real-Time DNN Inference with Minimized Memory
// Usage".
//
// What the paper's own numbers give is calculated by the equations of runtime/pipeline/timeline.h
// and compared with what the paper measured. Cost: some seconds, most of it for the sweeps of
// Figure 13. What is measured on this machine takes some minutes, and half a minute with --quick.
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools {

Paper demand_layering_paper() {
  return {
      .name = "demand-layering",
      .title = "Demand Layering for Real-Time DNN Inference with Minimized Memory Usage",
      .figures = {
          {"table-1", "the networks", demand_layering::table_1},
          {"figure-4", "times and sizes of YOLOv4's layers", demand_layering::figure_4},
          {"figure-5", "how times and sizes are distributed", demand_layering::figure_5},
          {"figure-6", "total times by input resolution", demand_layering::figure_6},
          {"figure-10", "timelines of three pipelines", demand_layering::figure_10},
          {"figure-11", "timelines of three and of two stages", demand_layering::figure_11},
          {"figure-12", "memory and delay of each pipeline", demand_layering::figure_12},
          {"figure-13", "delay by window, and the smallest windows", demand_layering::figure_13},
          {"table-2", "memory and delay against Pre", demand_layering::table_2},
          {"figure-14", "delay by input resolution", demand_layering::figure_14},
          {"figure-15", "memory by input resolution", demand_layering::figure_15},
          {"figure-5-here", "this machine: times of layers and their spread (Figures 4, 5, 8)",
           demand_layering::figure_5_here},
          {"figure-6-here",
           "this machine: times, delay and memory by input resolution (Figures 6, 14, 15)",
           demand_layering::figure_6_here},
          {"figure-7-here", "this machine: ways to read (Figure 7)",
           demand_layering::figure_7_here},
          {"figure-13-here", "this machine: delay by window, and the smallest windows (Figure 13)",
           demand_layering::figure_13_here},
          {"table-2-here", "this machine: memory and delay of each pipeline (Table II, Figure 12)",
           demand_layering::table_2_here},
          {"figure-16-here", "this machine: energy of an inference (Figure 16)",
           demand_layering::figure_16_here}}};
}

}  // namespace weightpager::tools
