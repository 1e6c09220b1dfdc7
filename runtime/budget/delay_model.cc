// See delay_model.h.
#include "runtime/budget/delay_model.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <bit>
#include <cmath>
#include <optional>

#include "pager/base/assert.h"

namespace weightpager::budget {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

uint64_t whole_ns(double ns) { return static_cast<uint64_t>(std::llround(std::max(ns, 0.0))); }

struct Solution {
  VectorXd coefficients;  // by column, 0 where it was left out
  double squared_error = 0;
};

// Solves with the columns of `mask` only. Nothing if they cannot be told apart, or if one
// coefficient would be negative.
std::optional<Solution> solve_with(const MatrixXd& all, const VectorXd& measured, unsigned mask) {
  MatrixXd chosen(all.rows(), std::popcount(mask));
  std::vector<Eigen::Index> columns;
  for (Eigen::Index column = 0; column < all.cols(); ++column) {
    if ((mask >> column & 1) == 0) continue;
    chosen.col(static_cast<Eigen::Index>(columns.size())) = all.col(column);
    columns.push_back(column);
  }
  const Eigen::ColPivHouseholderQR<MatrixXd> factors(chosen);
  if (factors.rank() < chosen.cols()) return std::nullopt;
  const VectorXd part = factors.solve(measured);
  if (part.minCoeff() < 0) return std::nullopt;
  Solution solution = {.coefficients = VectorXd::Zero(all.cols()),
                       .squared_error = (chosen * part - measured).squaredNorm()};
  for (size_t i = 0; i < columns.size(); ++i) {
    solution.coefficients(columns[i]) = part(static_cast<Eigen::Index>(i));
  }
  return solution;
}

// Columns of bytes stand beside columns of ones. On one scale their ranks are reliable.
VectorXd scale_columns(MatrixXd& columns) {
  VectorXd scales = columns.cwiseAbs().colwise().maxCoeff();
  for (Eigen::Index i = 0; i < scales.size(); ++i) {
    if (scales(i) == 0) scales(i) = 1;
    columns.col(i) /= scales(i);
  }
  return scales;
}

VectorXd solve_without_negative(const MatrixXd& columns, const VectorXd& measured) {
  Solution best = {.coefficients = VectorXd::Zero(columns.cols()),
                   .squared_error = measured.squaredNorm()};
  for (unsigned mask = 1; mask < 1u << columns.cols(); ++mask) {
    const auto solution = solve_with(columns, measured, mask);
    if (solution && solution->squared_error < best.squared_error) best = *solution;
  }
  return best.coefficients;
}

struct Equation {
  std::vector<std::vector<double>> rows;
  std::vector<double> measured_ns;
};

struct Answer {
  std::vector<double> coefficients;
  CostFit fit;
};

Answer solve(const Equation& equation) {
  const auto rows = static_cast<Eigen::Index>(equation.rows.size());
  MatrixXd columns(rows, static_cast<Eigen::Index>(equation.rows.front().size()));
  VectorXd measured(rows);
  for (Eigen::Index row = 0; row < rows; ++row) {
    const std::vector<double>& values = equation.rows[static_cast<size_t>(row)];
    for (Eigen::Index column = 0; column < columns.cols(); ++column) {
      columns(row, column) = values[static_cast<size_t>(column)];
    }
    measured(row) = equation.measured_ns[static_cast<size_t>(row)];
  }
  const VectorXd scales = scale_columns(columns);
  const VectorXd scaled = solve_without_negative(columns, measured);
  const VectorXd residuals = measured - columns * scaled;
  const double spread = (measured.array() - measured.mean()).square().sum();
  Answer answer;
  for (Eigen::Index i = 0; i < scaled.size(); ++i) {
    answer.coefficients.push_back(scaled(i) / scales(i));
  }
  answer.fit = {.samples = equation.rows.size(),
                // If all samples are equal, there is nothing to explain.
                .r_squared = spread > 0 ? 1 - residuals.squaredNorm() / spread : 1,
                .residuals_ns = {residuals.begin(), residuals.end()}};
  return answer;
}

// Checks that a regression can tell something from the samples: their sizes must differ.
Status check(const std::vector<const Sample*>& with_bytes) {
  constexpr size_t least = 4;
  if (with_bytes.size() < least) {
    return fail(fmt::format("{} layers with weights are too few for a regression: it takes {}",
                            with_bytes.size(), least),
                "measure a larger network, or several");
  }
  for (const Sample* sample : with_bytes) {
    if (sample->work.size_bytes != with_bytes.front()->work.size_bytes) return {};
  }
  return fail("all layers are of one size: nothing can be told of what a byte costs",
              "measure a network with different layers");
}

}  // namespace

LayerCosts DelayModel::layer_costs(const Work& layer) const {
  const auto bytes = static_cast<double>(layer.size_bytes);
  const auto tensors = static_cast<double>(layer.tensors);
  LayerCosts costs = {
      .size_bytes = layer.size_bytes,
      .kernel_ns = whole_ns(kernel_ns_per_operation * static_cast<double>(layer.operations) +
                            kernel_ns_per_layer)};
  if (layer.size_bytes == 0) return costs;
  costs.read_ns = whole_ns(read_ns_per_byte * bytes + read_ns_per_tensor * tensors);
  costs.release_ns = whole_ns(release_ns_per_tensor * tensors);
  return costs;
}

PerBlock DelayModel::per_block() const {
  return {.read_ns = whole_ns(read_ns_per_block), .release_ns = whole_ns(release_ns_per_block)};
}

BlockedNetwork blocked_network(const DelayModel& model, std::span<const Work> layers) {
  BlockedNetwork network = {.per_block = model.per_block()};
  for (const Work& layer : layers) network.layers.push_back(model.layer_costs(layer));
  return network;
}

Result<FittedModel> fit_delays(std::span<const Sample> samples) {
  std::vector<const Sample*> with_bytes;
  for (const Sample& sample : samples) {
    if (sample.work.size_bytes > 0) with_bytes.push_back(&sample);
  }
  if (Status enough = check(with_bytes); !enough) return forward_error(std::move(enough));
  Equation read, kernel, release;
  for (const Sample* sample : with_bytes) {
    const auto tensors = static_cast<double>(sample->work.tensors);
    read.rows.push_back({static_cast<double>(sample->work.size_bytes), tensors, 1});
    read.measured_ns.push_back(static_cast<double>(sample->read_ns));
    release.rows.push_back({tensors, 1});
    release.measured_ns.push_back(static_cast<double>(sample->release_ns));
  }
  for (const Sample& sample : samples) {
    kernel.rows.push_back({static_cast<double>(sample.work.operations), 1});
    kernel.measured_ns.push_back(static_cast<double>(sample.kernel_ns));
  }
  Answer reads = solve(read), kernels = solve(kernel), releases = solve(release);
  return FittedModel{.model = {.read_ns_per_byte = reads.coefficients[0],
                               .read_ns_per_tensor = reads.coefficients[1],
                               .read_ns_per_block = reads.coefficients[2],
                               .kernel_ns_per_operation = kernels.coefficients[0],
                               .kernel_ns_per_layer = kernels.coefficients[1],
                               .release_ns_per_tensor = releases.coefficients[0],
                               .release_ns_per_block = releases.coefficients[1]},
                     .read = std::move(reads.fit),
                     .kernel = std::move(kernels.fit),
                     .release = std::move(releases.fit)};
}

}  // namespace weightpager::budget
