// expert.cpp: forward and backward of one expert, chunk by chunk.
#include "reference/expert.hpp"

#include <algorithm>
#include <cmath>

namespace mok::reference {
namespace {

constexpr std::int64_t kChunkRows = 64;

std::size_t size_of(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

double as_double(Bf16 v) {
  return static_cast<double>(to_float(v));
}

// The operand of a product that is itself inexact: one product with an exact |a| then gives
// propagated error and the rounding of the sum together.
Operand inexact_operand(Approx a, double factor) {
  return {a.value, factor * magnitude(a) + a.error};
}

void clear(std::vector<Lanes>& lanes, std::int64_t count) {
  std::fill_n(lanes.begin(), count, Lanes{});
}

// How eight neighbouring columns of a right operand lie in a bf16 matrix.
struct Source {
  const Bf16* lane[kLanes];  // null: zeros
  std::int64_t stride = 0;   // from one product to the next
};

void pack(const Source& source, std::int64_t count, const ErrorModel& model, double factor,
          std::vector<Lanes>& out) {
  for (std::int64_t j = 0; j < kLanes; ++j) {
    const Bf16* from = source.lane[j];
    for (std::int64_t k = 0; k < count; ++k) {
      const double v = from == nullptr ? 0.0 : as_double(from[k * source.stride]);
      out[size_of(k)].value[j] = v;
      out[size_of(k)].bound[j] = model.exact_operand(v, factor);
    }
  }
}

// Eight neighbouring hidden columns of the rows' tokens.
void pack_tokens(const Bf16* tokens, std::int64_t hidden, std::span<const Row> rows,
                 std::int64_t first_hidden, const ErrorModel& model, double factor,
                 std::vector<Lanes>& out) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Bf16* from = tokens + rows[r].token * hidden + first_hidden;
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const double v = as_double(from[j]);
      out[r].value[j] = v;
      out[r].bound[j] = model.exact_operand(v, factor);
    }
  }
}

}  // namespace

ExpertEngine::ExpertEngine(const Problem& problem, std::int64_t max_columns, std::int64_t max_rows,
                           int num_threads)
    : problem_(problem), model_(problem.accumulation) {
  padded_columns_ = (max_columns + kLanes - 1) / kLanes * kLanes;
  const std::int64_t chunk = std::min(kChunkRows, max_rows);
  x_.resize(size_of(chunk * problem.hidden));
  dy_.resize(size_of(chunk * problem.hidden));
  const std::size_t per_column = size_of(chunk * padded_columns_);
  for (std::vector<Operand>* array :
       {&arrays_.hidden, &arrays_.d_gate_for_dx, &arrays_.d_up_for_dx, &arrays_.d_gate,
        &arrays_.d_up, &arrays_.hidden_scaled, &arrays_.d_scale_term}) {
    array->resize(per_column);
  }
  benches_.resize(size_of(std::max(num_threads, 1)));
  for (Workbench& bench : benches_) {
    for (std::vector<Lanes>& right : bench.right) {
      right.resize(size_of(std::max({problem.hidden, padded_columns_, chunk})));
    }
    for (std::vector<Lanes>& result : bench.result) {
      result.resize(size_of(std::max(padded_columns_, chunk)));
    }
  }
}

void ExpertEngine::run(const ExpertTask& task, const Member& member) {
  const auto num_rows = static_cast<std::int64_t>(task.rows.size());
  const auto num_columns = static_cast<std::int64_t>(task.columns.size());
  Factors factors;
  factors.over_hidden = model_.sum_factor(problem_.hidden);
  factors.over_columns = model_.sum_factor(num_columns);
  // Two sums one after the other, each padded to whole steps.
  factors.over_two_columns = model_.sum_factor(2 * num_columns + 16);
  // The products are of fp32 numbers and round; whatever adds them is at least as good as fp32.
  factors.d_scale = ErrorModel::fp32_factor(num_columns + 1);
  if (task.gradients != nullptr) {
    factors.over_rows = model_.gradient_factor(num_rows, task.gradients->num_more_additions);
  }
  Workbench& bench = benches_[size_of(member.index)];
  for (std::int64_t first = 0; first < num_rows; first += kChunkRows) {
    const std::int64_t count = std::min(kChunkRows, num_rows - first);
    const std::span<const Row> rows = task.rows.subspan(size_of(first), size_of(count));
    load_rows(task, first, count, factors, member);
    member
        .meet();  // the chunk's rows are loaded, and nobody reads the last chunk's columns any more
    member.share((num_columns + kLanes - 1) / kLanes, [&](std::int64_t group) {
      columns_group(task, rows, group * kLanes, factors, bench);
    });
    member.meet();  // the columns are whole, and nobody reads the loaded rows any more
    member.share(problem_.hidden / kLanes, [&](std::int64_t group) {
      if (task.y != nullptr) {
        token_group(task, rows, group * kLanes, factors, bench);
      }
      if (task.gradients != nullptr) {
        gradient_group(task, rows, group * kLanes, factors, bench);
      }
    });
    if (task.d_scale != nullptr) {
      member.share(count, [&](std::int64_t r) { scale_gradient(task, rows[size_of(r)], r); });
    }
  }
}

void ExpertEngine::load_rows(const ExpertTask& task, std::int64_t first, std::int64_t count,
                             const Factors& factors, const Member& member) {
  const std::int64_t hidden = problem_.hidden;
  member.share(count, [&](std::int64_t r) {
    const std::int64_t token = task.rows[size_of(first + r)].token;
    for (std::int64_t h = 0; h < hidden; ++h) {
      const double x = as_double(problem_.x[token * hidden + h]);
      const double dy = as_double(problem_.dy[token * hidden + h]);
      x_[size_of(r * hidden + h)] = {x, model_.exact_operand(x, factors.over_hidden)};
      dy_[size_of(r * hidden + h)] = {dy, model_.exact_operand(dy, factors.over_hidden)};
    }
  });
}

// gate, up and dh of all rows for eight columns, then everything that is elementwise in them.
void ExpertEngine::columns_group(const ExpertTask& task, std::span<const Row> rows,
                                 std::int64_t first_column, const Factors& factors,
                                 Workbench& bench) {
  const std::int64_t hidden = problem_.hidden;
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  Source gate{.lane = {}, .stride = 1};
  Source up{.lane = {}, .stride = 1};
  Source down{.lane = {}, .stride = task.intermediate};
  for (std::int64_t j = 0; j < kLanes; ++j) {
    if (first_column + j < static_cast<std::int64_t>(task.columns.size())) {
      const std::int64_t column = task.columns[size_of(first_column + j)];
      gate.lane[j] = task.gate + column * hidden;
      up.lane[j] = task.up + column * hidden;
      down.lane[j] = task.down + column;
    }
  }
  const Source* sources[3] = {&gate, &up, &down};
  const Operand* left[3] = {x_.data(), x_.data(), dy_.data()};
  for (int m = 0; m < 3; ++m) {
    pack(*sources[m], hidden, model_, factors.over_hidden, bench.right[m]);
    clear(bench.result[m], num_rows);
    multiply_add({left[m], hidden, 1}, bench.right[m].data(), num_rows, hidden,
                 bench.result[m].data());
  }
  const double underflow = model_.underflow(hidden);
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const auto sum = [&](int m) {
        const Lanes& lanes = bench.result[m][size_of(r)];
        const double error = lanes.bound[j] * factors.over_hidden;
        return Approx{lanes.value[j], lanes.bound[j] == 0.0 ? 0.0 : error + underflow};
      };
      one_element(rows[size_of(r)], r * padded_columns_ + first_column + j, sum(0), sum(1), sum(2),
                  factors);
    }
  }
}

void ExpertEngine::one_element(const Row& row, std::int64_t at, Approx gate, Approx up,
                               Approx d_hidden, const Factors& factors) {
  const std::size_t i = size_of(at);
  gate = model_.round_bf16(gate);
  up = model_.round_bf16(up);
  const double limit = problem_.swiglu_limit ? static_cast<double>(*problem_.swiglu_limit)
                                             : std::numeric_limits<double>::infinity();
  const Clamped gate_clamped = clamp_above(gate, limit);
  const Clamped up_clamped = clamp_both(up, limit);
  const Approx silu = model_.silu(gate_clamped.limited);
  const Approx hidden = model_.multiply(silu, up_clamped.limited);  // fp32, not rounded to bf16
  const Approx d_scaled = model_.multiply(row.scale, d_hidden);

  const Approx d_up = pass_gradient(up_clamped, model_.round_bf16(model_.multiply(d_scaled, silu)));
  // The slope is taken at the gate itself: where its gradient passes, it is not clamped.
  const Approx d_silu = model_.multiply(d_scaled, up_clamped.limited);
  const Approx d_gate = pass_gradient(
      gate_clamped, model_.round_bf16(model_.multiply(d_silu, model_.silu_slope(gate))));
  const Approx scaled = model_.round_bf16(model_.multiply(row.scale, hidden));

  arrays_.hidden[i] = inexact_operand(model_.round_bf16(hidden), factors.over_columns);
  arrays_.d_gate_for_dx[i] = inexact_operand(d_gate, factors.over_two_columns);
  arrays_.d_up_for_dx[i] = inexact_operand(d_up, factors.over_two_columns);
  arrays_.d_gate[i] = inexact_operand(d_gate, factors.over_rows);
  arrays_.d_up[i] = inexact_operand(d_up, factors.over_rows);
  arrays_.hidden_scaled[i] = inexact_operand(scaled, factors.over_rows);
  const Approx product = multiply_exact(d_hidden, hidden);
  arrays_.d_scale_term[i] = {product.value, product.error + factors.d_scale * magnitude(product)};
}

// y and dx of all rows for eight hidden columns.
void ExpertEngine::token_group(const ExpertTask& task, std::span<const Row> rows,
                               std::int64_t first_hidden, const Factors& factors,
                               Workbench& bench) {
  const std::int64_t hidden = problem_.hidden;
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  const auto num_columns = static_cast<std::int64_t>(task.columns.size());
  Source down{.lane = {}, .stride = 1};
  Source gate{.lane = {}, .stride = hidden};
  Source up{.lane = {}, .stride = hidden};
  for (std::int64_t j = 0; j < kLanes; ++j) {
    down.lane[j] = task.down + (first_hidden + j) * task.intermediate;
    gate.lane[j] = task.gate + first_hidden + j;
    up.lane[j] = task.up + first_hidden + j;
  }
  pack(down, num_columns, model_, factors.over_columns, bench.right[0]);
  pack(gate, num_columns, model_, factors.over_two_columns, bench.right[1]);
  pack(up, num_columns, model_, factors.over_two_columns, bench.right[2]);
  clear(bench.result[0], num_rows);
  clear(bench.result[1], num_rows);
  multiply_add({arrays_.hidden.data(), padded_columns_, 1}, bench.right[0].data(), num_rows,
               num_columns, bench.result[0].data());
  multiply_add({arrays_.d_gate_for_dx.data(), padded_columns_, 1}, bench.right[1].data(), num_rows,
               num_columns, bench.result[1].data());
  multiply_add({arrays_.d_up_for_dx.data(), padded_columns_, 1}, bench.right[2].data(), num_rows,
               num_columns, bench.result[1].data());
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const Row& row = rows[size_of(r)];
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const auto sum = [&](int m, std::int64_t num_products) {
        const Lanes& lanes = bench.result[m][size_of(r)];
        const double error = lanes.bound[j];
        return Approx{lanes.value[j], error == 0.0 ? 0.0 : error + model_.underflow(num_products)};
      };
      const std::int64_t at = row.token * hidden + first_hidden + j;
      task.y->add(at, multiply_exact(row.scale, model_.round_bf16(sum(0, num_columns))));
      task.dx->add(at, model_.round_bf16(sum(1, 2 * num_columns)));
    }
  }
}

// The chunk's part of the weight gradients for eight hidden columns.
void ExpertEngine::gradient_group(const ExpertTask& task, std::span<const Row> rows,
                                  std::int64_t first_hidden, const Factors& factors,
                                  Workbench& bench) {
  const std::int64_t hidden = problem_.hidden;
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  const auto num_columns = static_cast<std::int64_t>(task.columns.size());
  pack_tokens(problem_.x, hidden, rows, first_hidden, model_, factors.over_rows, bench.right[0]);
  pack_tokens(problem_.dy, hidden, rows, first_hidden, model_, factors.over_rows, bench.right[1]);
  const Operand* left[3] = {arrays_.d_gate.data(), arrays_.d_up.data(),
                            arrays_.hidden_scaled.data()};
  const Lanes* right[3] = {bench.right[0].data(), bench.right[0].data(), bench.right[1].data()};
  const GradientView* out[3] = {&task.gradients->gate, &task.gradients->up, &task.gradients->down};
  const double underflow = model_.underflow(num_rows);
  for (int m = 0; m < 3; ++m) {
    clear(bench.result[m], num_columns);
    multiply_add({left[m], 1, padded_columns_}, right[m], num_columns, num_rows,
                 bench.result[m].data());
    for (std::int64_t i = 0; i < num_columns; ++i) {
      const Lanes& lanes = bench.result[m][size_of(i)];
      for (std::int64_t j = 0; j < kLanes; ++j) {
        const std::int64_t at =
            i * out[m]->column_stride + (first_hidden + j) * out[m]->hidden_stride;
        out[m]->value[at] += lanes.value[j];
        out[m]->error[at] += lanes.bound[j] == 0.0 ? 0.0 : lanes.bound[j] + underflow;
      }
    }
  }
}

void ExpertEngine::scale_gradient(const ExpertTask& task, const Row& row,
                                  std::int64_t row_in_chunk) {
  const auto num_columns = static_cast<std::int64_t>(task.columns.size());
  Approx sum;
  for (std::int64_t i = 0; i < num_columns; ++i) {
    const Operand& term = arrays_.d_scale_term[size_of(row_in_chunk * padded_columns_ + i)];
    sum.value += term.value;
    sum.error += term.bound;
  }
  if (sum.error != 0.0) {
    sum.error += model_.underflow(2 * num_columns);
  }
  task.d_scale[row.place] = sum;
}

}  // namespace mok::reference
