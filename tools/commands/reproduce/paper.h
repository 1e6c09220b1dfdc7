// The papers' figures and tables as a list: each is made by one function.
//
// Problem. A reader who has a paper beside him wants each of its figures and tables again: from the
// paper's own numbers where it gives them, beside the published values, and from this machine.
//
// Idea. A paper is a list of figures. A figure is a name, a title and a pure function from settings
// to tables and pictures. reproduce.cc chooses, calls and writes files; the functions write none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/infer/window_use.h"
#include "tools/report/table.h"

namespace weightpager::tools {

/// Times of one layer that a user gives (`--layers`).
struct GivenLayer {
  double read_ms = 0;
  double copy_ms = 0;
  double kernel_ms = 0;
  double size_mib = 1;
};

struct ReproduceSettings {
  /// Fewer points, so that all of it takes minutes at most.
  bool is_quick = false;
  /// For the timelines of Demand Layering. Empty: an example.
  std::vector<GivenLayer> layers;
  /// What is measured on this machine: with a network of `model make` (empty: each figure's own
  /// choice), and with files that are needed for a while in this folder.
  std::string network;
  std::string directory;
  infer::DeviceKind device = infer::DeviceKind::cpu;
  int threads = 1;
};

struct Picture {
  /// Of the file, without ".svg".
  std::string name;
  std::string svg;
};

/// What became of one figure or table.
struct Reproduction {
  std::vector<Table> tables;
  std::vector<Picture> pictures;
  /// What cannot be had here, and why; one sentence each.
  std::vector<std::string> lacks;
};

struct Figure {
  /// "figure-13", "table-2": of the paper, and the files' name.
  std::string name;
  std::string title;
  /// Nothing is read but what is part of weightpager, and nothing is measured unless the title
  /// says "this machine".
  Result<Reproduction> (*make)(const ReproduceSettings& settings);
};

struct Paper {
  std::string name;
  std::string title;
  /// In the paper's order.
  std::vector<Figure> figures;
};

Paper demand_layering_paper();
Paper activation_sharing_paper();
Paper swapnet_paper();
Paper taso_paper();

}  // namespace weightpager::tools
