// See integer_program.h. CBC accepts rows that miss by a millionth, whatever their numbers. So
// times and sizes are given to CBC in thousandths of the largest one.
#include <Cbc_C_Interface.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/plan/integer_program.h"
#include "runtime/plan/select.h"

namespace weightpager::plan {
namespace {

constexpr double units_max = 1000;

// The error for an answer that cannot be used.
tl::unexpected<Error> unusable(const std::string& answer) {
  return fail("CBC, the integer programming solver, " + answer,
              "its arithmetic is inexact: try a budget that is some per cent larger or smaller");
}

// The units of CBC's numbers.
struct Units {
  double time_ns = 1;
  double memory_bytes = 1;

  explicit Units(const Instance& instance) {
    double most_ns = 0;
    uint64_t most_bytes = 0;
    for (const Node& node : instance.nodes) {
      for (const Candidate& it : node.candidates) {
        most_ns = std::max(most_ns, it.time_ns);
        most_bytes = std::max({most_bytes, it.held_bytes, it.workspace_bytes});
      }
    }
    for (const Edge& edge : instance.edges) {
      for (const double change_ns : edge.change_ns) most_ns = std::max(most_ns, change_ns);
    }
    if (most_ns > 0) time_ns = most_ns / units_max;
    if (most_bytes > 0) memory_bytes = static_cast<double>(most_bytes) / units_max;
  }
};

struct Term {
  int column = 0;
  double factor = 0;
};

class Program {
 public:
  explicit Program(const Instance& instance)
      : instance_(instance), units_(instance), model_(Cbc_newModel()) {
    Cbc_setLogLevel(model_.get(), 0);
    Cbc_setObjSense(model_.get(), 1);
    for (const Node& node : instance_.nodes) {
      first_columns_.push_back(columns_);
      for (size_t i = 0; i < node.candidates.size(); ++i) add_column(1, true);
    }
    workspace_column_ = add_column(std::numeric_limits<double>::max(), false);
    for (size_t i = 0; i < instance_.nodes.size(); ++i) add_node(i);
    for (const Edge& edge : instance_.edges) add_edge(edge);
  }

  void minimize_time() {
    for (const Term& term : time_) Cbc_setObjCoeff(model_.get(), term.column, term.factor);
  }
  void minimize_memory() {
    for (const Term& term : memory()) Cbc_setObjCoeff(model_.get(), term.column, term.factor);
  }
  void limit_memory(uint64_t bytes_max) { add_row(memory(), 'L', size(bytes_max)); }
  void limit_time(double ns_max) { add_row(time_, 'L', ns_max / units_.time_ns); }

  /// Empty if there is no solution, or none was found in time.
  Result<std::vector<uint32_t>> solve(const TimeLimit& limit = {}) {
    if (std::isfinite(limit.seconds_left())) {
      Cbc_setParameter(model_.get(), "timeMode", "elapsed");
      Cbc_setMaximumSeconds(model_.get(), limit.seconds_left());
    }
    Cbc_setAllowableGap(model_.get(), 0);
    Cbc_setAllowableFractionGap(model_.get(), 0);
    Cbc_setParameter(model_.get(), "ratioGap", "0");
    Cbc_setParameter(model_.get(), "allowableGap", "1e-9");
    // CBC's preprocessing sometimes ends the process by an assertion (OsiClp's crunch, CBC 2.10.8).
    Cbc_setParameter(model_.get(), "preprocess", "off");
    Cbc_setParameter(model_.get(), "log", "0");
    Cbc_solve(model_.get());
    if (Cbc_isProvenInfeasible(model_.get()) != 0) return std::vector<uint32_t>();
    if (Cbc_isProvenOptimal(model_.get()) != 0) return chosen(Cbc_getColSolution(model_.get()));
    if (!is_out_of_time(limit)) {
      return unusable(fmt::format("ended without the best selection (status {}, {})",
                                  Cbc_status(model_.get()), Cbc_secondaryStatus(model_.get())));
    }
    if (Cbc_numberSavedSolutions(model_.get()) == 0) return std::vector<uint32_t>();
    return chosen(Cbc_bestSolution(model_.get()));
  }

  /// CBC may stop some microseconds before the limit.
  bool is_out_of_time(const TimeLimit& limit) const {
    return limit.seconds_left() == 0 || Cbc_isSecondsLimitReached(model_.get()) != 0;
  }

 private:
  struct Deleter {
    void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
  };

  double size(uint64_t bytes) const { return static_cast<double>(bytes) / units_.memory_bytes; }

  int add_column(double upper, bool is_integer) {
    Cbc_addCol(model_.get(), "", 0, upper, 0, is_integer ? 1 : 0, 0, nullptr, nullptr);
    return columns_++;
  }

  void add_row(const std::vector<Term>& terms, char sense, double right) {
    std::vector<int> columns;
    std::vector<double> factors;
    for (const Term& term : terms) {
      columns.push_back(term.column);
      factors.push_back(term.factor);
    }
    Cbc_addRow(model_.get(), "", static_cast<int>(columns.size()), columns.data(), factors.data(),
               sense, right);
  }

  // One candidate is chosen, and its workspace fits in the shared one.
  void add_node(size_t number) {
    std::vector<Term> one;
    std::vector<Term> workspace = {{workspace_column_, -1}};
    int column = first_columns_[number];
    for (const Candidate& it : instance_.nodes[number].candidates) {
      one.push_back({column, 1});
      time_.push_back({column, it.time_ns / units_.time_ns});
      if (it.held_bytes > 0) held_.push_back({column, size(it.held_bytes)});
      if (it.workspace_bytes > 0) workspace.push_back({column, size(it.workspace_bytes)});
      ++column;
    }
    add_row(one, 'E', 1);
    if (workspace.size() > 1) add_row(workspace, 'L', 0);
  }

  // The transport from the layouts of one node to those of the other.
  void add_edge(const Edge& edge) {
    const uint32_t layouts = instance_.layouts;
    std::vector<std::vector<Term>> leaving(layouts);
    std::vector<std::vector<Term>> arriving(layouts);
    for (uint32_t from = 0; from < layouts; ++from) {
      for (uint32_t to = 0; to < layouts; ++to) {
        const int column = add_column(1, false);
        time_.push_back({column, edge.change_ns[from * layouts + to] / units_.time_ns});
        leaving[from].push_back({column, 1});
        arriving[to].push_back({column, 1});
      }
    }
    for_each_candidate(edge.from, [&](int column, const Candidate& it) {
      leaving[it.layout_out].push_back({column, -1});
    });
    for_each_candidate(edge.to, [&](int column, const Candidate& it) {
      arriving[it.layout_in].push_back({column, -1});
    });
    for (uint32_t layout = 0; layout < layouts; ++layout) {
      add_row(leaving[layout], 'E', 0);
      add_row(arriving[layout], 'E', 0);
    }
  }

  template <typename Visit>
  void for_each_candidate(uint32_t node, Visit visit) const {
    int column = first_columns_[node];
    for (const Candidate& it : instance_.nodes[node].candidates) visit(column++, it);
  }

  std::vector<Term> memory() const {
    std::vector<Term> terms = held_;
    terms.push_back({workspace_column_, 1});
    return terms;
  }

  std::vector<uint32_t> chosen(const double* values) const {
    std::vector<uint32_t> candidates;
    for (size_t i = 0; i < instance_.nodes.size(); ++i) {
      const double* const first = values + first_columns_[i];
      const double* const last = first + instance_.nodes[i].candidates.size();
      candidates.push_back(static_cast<uint32_t>(std::max_element(first, last) - first));
    }
    return candidates;
  }

  const Instance& instance_;
  const Units units_;
  std::unique_ptr<Cbc_Model, Deleter> model_;
  int columns_ = 0;
  std::vector<int> first_columns_;
  int workspace_column_ = 0;
  std::vector<Term> time_;
  std::vector<Term> held_;
};

}  // namespace

bool has_integer_programming() { return true; }

Result<Selection> fastest_by_cbc(const Instance& instance, uint64_t memory_bytes_max,
                                 const TimeLimit& limit) {
  if (least_memory_bytes(instance) > memory_bytes_max) {
    return tl::make_unexpected(budget_too_small(instance, memory_bytes_max));
  }
  Program program(instance);
  program.minimize_time();
  program.limit_memory(memory_bytes_max);
  auto candidates = program.solve(limit);
  if (!candidates) return forward_error(std::move(candidates));
  if (candidates->empty() && program.is_out_of_time(limit)) return smallest(instance);
  if (candidates->empty()) {
    return unusable(fmt::format("says that no selection fits {} bytes, where one takes {}",
                                memory_bytes_max, least_memory_bytes(instance)));
  }
  return evaluate(instance, *candidates);
}

Result<Selection> least_memory_by_cbc(const Instance& instance, double time_ns_max) {
  Program program(instance);
  program.minimize_memory();
  program.limit_time(time_ns_max);
  auto candidates = program.solve();
  if (!candidates) return forward_error(std::move(candidates));
  if (!candidates->empty()) return evaluate(instance, *candidates);
  const auto least = fastest_by_cbc(instance, UINT64_MAX / 2);
  if (!least) return least;
  if (least->time_ns <= time_ns_max) {
    return unusable(
        fmt::format("says that no selection takes only {:.6f} ms, where one takes {:.6f}",
                    time_ns_max / 1e6, least->time_ns / 1e6));
  }
  return tl::make_unexpected(time_too_short(time_ns_max, least->time_ns));
}

}  // namespace weightpager::plan
