// layer.cpp: the whole layer: shared expert, routed experts, sums over slots, last roundings.
#include "reference/layer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace mok::reference {
namespace {

std::size_t size_of(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

double as_double(Bf16 v) {
  return static_cast<double>(to_float(v));
}

GradientView view(Expected::Array& array, std::int64_t first, std::int64_t column_stride,
                  std::int64_t hidden_stride) {
  return {array.value.data() + first, array.bound.data() + first, column_stride, hidden_stride};
}

void resize(Expected::Array& array, std::int64_t count) {
  array.value.resize(size_of(count));
  array.bound.resize(size_of(count));
}

// The state that all members of the team see.
struct Layer {
  const Problem& problem;
  Parts parts;
  ErrorModel model;
  ExpertRows rows;
  std::vector<Row> of_shared;
  std::vector<std::int64_t> columns;
  std::vector<std::int64_t> shared_columns;
  RowSum y;
  RowSum dx;
  std::vector<Approx> d_router;
  std::vector<Approx> ds;
  std::vector<Approx> dz;
  ExpertEngine engine;
  Expected expected;

  Layer(const Problem& p, Parts which, int num_threads)
      : problem(p),
        parts(which),
        model(p.accumulation),
        rows(p),
        columns(all_columns(p.intermediate)),
        shared_columns(all_columns(p.shared_intermediate)),
        y(p.num_tokens * p.hidden),
        dx(p.num_tokens * p.hidden),
        d_router(size_of(p.num_tokens * p.topk)),
        ds(size_of(p.num_tokens)),
        engine(p, std::max(p.intermediate, p.shared_intermediate), p.num_tokens * (p.topk + 1),
               num_threads) {
    if (p.shared_intermediate > 0) {
      of_shared = shared_rows(p, model);
    }
    resize(expected[Output::kY], p.num_tokens * p.hidden);
    resize(expected[Output::kDx], p.num_tokens * p.hidden);
    resize(expected[Output::kDRouter], p.num_tokens * p.topk);
    if (parts == Parts::kEverything) {
      for (const Output output : {Output::kDGate, Output::kDUp, Output::kDDown}) {
        resize(expected[output], p.num_experts * p.intermediate * p.hidden);
      }
      for (const Output output : {Output::kDSharedGate, Output::kDSharedUp, Output::kDSharedDown}) {
        resize(expected[output], p.shared_intermediate * p.hidden);
      }
    }
  }

  void run_shared(const Member& member);
  void run_routed(const Member& member);
  void add_output_gate(const Member& member);
  void finish_tokens(const Member& member);
  void finish_gradients(const Member& member);
};

void Layer::run_shared(const Member& member) {
  const std::int64_t s = problem.shared_intermediate;
  const ExpertTask::Gradients gradients{
      .gate = view(expected[Output::kDSharedGate], 0, problem.hidden, 1),
      .up = view(expected[Output::kDSharedUp], 0, problem.hidden, 1),
      .down = view(expected[Output::kDSharedDown], 0, 1, s),
      .num_more_additions = problem.num_ranks + 1};
  ExpertTask task{.gate = problem.shared_gate,
                  .up = problem.shared_up,
                  .down = problem.shared_down,
                  .intermediate = s,
                  .columns = shared_columns,
                  .rows = of_shared,
                  .y = &y,
                  .dx = &dx,
                  .d_scale = ds.data(),
                  .gradients = parts == Parts::kEverything ? &gradients : nullptr};
  engine.run(task, member);
}

void Layer::run_routed(const Member& member) {
  const std::int64_t per_expert = problem.intermediate * problem.hidden;
  for (std::int64_t e = 0; e < problem.num_experts; ++e) {
    ExpertTask task{.gate = problem.gate + e * per_expert,
                    .up = problem.up + e * per_expert,
                    .down = problem.down + e * per_expert,
                    .intermediate = problem.intermediate,
                    .columns = columns,
                    .rows = rows.of(e),
                    .y = &y,
                    .dx = &dx,
                    .d_scale = d_router.data()};
    ExpertTask::Gradients gradients;
    if (parts == Parts::kEverything) {
      const std::int64_t first = e * per_expert;
      gradients.gate = view(expected[Output::kDGate], first, problem.hidden, 1);
      gradients.up = view(expected[Output::kDUp], first, problem.hidden, 1);
      gradients.down = view(expected[Output::kDDown], first, 1, problem.intermediate);
      task.gradients = &gradients;
    }
    engine.run(task, member);
  }
}

void Layer::add_output_gate(const Member& member) {
  if (member.index == 0) {
    dz = gate_logit_gradients(of_shared, ds, model);
    if (parts == Parts::kEverything) {
      expected[Output::kDSharedOutputGate] = output_gate_gradient(problem, dz, model);
    }
  }
  member.meet();  // dz is whole
  member.share(problem.num_tokens, [&](std::int64_t t) {
    for (std::int64_t h = 0; h < problem.hidden; ++h) {
      const Approx g{as_double(problem.shared_output_gate[h]), 0.0};
      dx.add(t * problem.hidden + h, multiply_exact(dz[size_of(t)], g));
    }
  });
}

// The fp32 sum over the terms of a token, then its one rounding to bf16.
void Layer::finish_tokens(const Member& member) {
  member.share(problem.num_tokens, [&](std::int64_t t) {
    std::int64_t num_terms = problem.shared_intermediate > 0 ? 2 : 0;
    for (std::int64_t slot = 0; slot < problem.topk; ++slot) {
      const std::int64_t place = t * problem.topk + slot;
      num_terms += problem.ids[place] >= 0 ? 1 : 0;
      const Approx d = d_router[size_of(place)];
      expected[Output::kDRouter].value[size_of(place)] = d.value;
      expected[Output::kDRouter].bound[size_of(place)] = model.round_fp32(d).error;
    }
    // Each term: its product with the scale, and an addition for each term after it.
    const double factor = ErrorModel::fp32_factor(num_terms + 1);
    for (const auto& [sum, output] : {std::pair(&y, Output::kY), std::pair(&dx, Output::kDx)}) {
      for (std::int64_t h = 0; h < problem.hidden; ++h) {
        const std::size_t at = size_of(t * problem.hidden + h);
        Approx total{sum->value[at], sum->error[at]};
        if (sum->magnitude[at] != 0.0) {
          total.error += factor * sum->magnitude[at] + model.underflow(2 * num_terms);
        }
        expected[output].value[at] = total.value;
        expected[output].bound[at] = model.round_bf16(total).error;
      }
    }
  });
}

void Layer::finish_gradients(const Member& member) {
  for (const Output output : {Output::kDGate, Output::kDUp, Output::kDDown, Output::kDSharedGate,
                              Output::kDSharedUp, Output::kDSharedDown}) {
    Expected::Array& array = expected[output];
    const bool is_shared = output >= Output::kDSharedGate;
    const auto count = static_cast<std::int64_t>(array.value.size());
    constexpr std::int64_t kPart = 4096;
    member.share((count + kPart - 1) / kPart, [&](std::int64_t part) {
      const std::int64_t last = std::min(count, (part + 1) * kPart);
      for (std::int64_t i = part * kPart; i < last; ++i) {
        const Approx sum{array.value[size_of(i)], array.bound[size_of(i)]};
        const Approx done = is_shared ? finish_shared_gradient(problem, model, sum)
                                      : finish_gradient(problem, model, sum);
        array.value[size_of(i)] = done.value;
        array.bound[size_of(i)] = done.error;
      }
    });
  }
}

}  // namespace

ExpertRows::ExpertRows(const Problem& problem)
    : first_(static_cast<std::size_t>(problem.num_experts) + 1) {
  const std::int64_t num_places = problem.num_tokens * problem.topk;
  for (std::int64_t place = 0; place < num_places; ++place) {
    if (problem.ids[place] >= 0) {
      ++first_[static_cast<std::size_t>(problem.ids[place]) + 1];
    }
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  rows_.resize(size_of(first_.back()));
  std::vector<std::int64_t> next(first_.begin(), first_.end() - 1);
  for (std::int64_t place = 0; place < num_places; ++place) {
    if (problem.ids[place] >= 0) {
      const auto expert = static_cast<std::size_t>(problem.ids[place]);
      rows_[size_of(next[expert]++)] = {
          .token = place / problem.topk,
          .place = place,
          .scale = {static_cast<double>(problem.weights[place]), 0.0}};
    }
  }
}

std::vector<Row> shared_rows(const Problem& problem, const ErrorModel& model) {
  std::vector<Row> rows(size_of(problem.num_tokens));
  for (std::int64_t t = 0; t < problem.num_tokens; ++t) {
    Row& row = rows[size_of(t)];
    row = {.token = t, .place = t, .scale = {1.0, 0.0}};
    if (problem.shared_output_gate == nullptr) {
      continue;
    }
    Approx z;
    // The products of this sum may be added by any unit: the weaker of the two factors.
    const double factor =
        std::max(model.sum_factor(problem.hidden), ErrorModel::fp32_factor(problem.hidden));
    for (std::int64_t h = 0; h < problem.hidden; ++h) {
      const double x = as_double(problem.x[t * problem.hidden + h]);
      const double g = as_double(problem.shared_output_gate[h]);
      z.value += x * g;
      z.error += model.exact_operand(x, factor) * model.exact_operand(g, factor);
    }
    z.error = z.error == 0.0 ? 0.0 : factor * z.error + model.underflow(problem.hidden);
    row.scale = model.sigmoid(z);
  }
  return rows;
}

std::vector<std::int64_t> all_columns(std::int64_t count) {
  std::vector<std::int64_t> columns(size_of(count));
  std::iota(columns.begin(), columns.end(), std::int64_t{0});
  return columns;
}

std::vector<Approx> gate_logit_gradients(std::span<const Row> rows, std::span<const Approx> ds,
                                         const ErrorModel& model) {
  std::vector<Approx> dz(rows.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const Approx s = rows[t].scale;
    const Approx rest = model.round_fp32({1.0 - s.value, s.error});
    dz[t] = model.multiply(model.multiply(model.round_fp32(ds[t]), s), rest);
  }
  return dz;
}

Expected::Array output_gate_gradient(const Problem& problem, std::span<const Approx> dz,
                                     const ErrorModel& model) {
  const std::int64_t num_terms = problem.num_tokens + problem.num_ranks + 1;
  const double factor = ErrorModel::fp32_factor(num_terms);
  Expected::Array sum;
  resize(sum, problem.hidden);
  for (std::int64_t t = 0; t < problem.num_tokens; ++t) {
    for (std::int64_t h = 0; h < problem.hidden; ++h) {
      const Approx x{as_double(problem.x[t * problem.hidden + h]), 0.0};
      const Approx term = multiply_exact(dz[size_of(t)], x);
      sum.value[size_of(h)] += term.value;
      sum.bound[size_of(h)] += term.error + factor * magnitude(term);
    }
  }
  for (std::size_t h = 0; h < sum.value.size(); ++h) {
    const double error = sum.bound[h];
    const Approx total{sum.value[h], error == 0.0 ? 0.0 : error + model.underflow(num_terms)};
    const Approx done = finish_shared_gradient(problem, model, total);
    sum.value[h] = done.value;
    sum.bound[h] = done.error;
  }
  return sum;
}

Approx finish_gradient(const Problem& problem, const ErrorModel& model, Approx sum) {
  switch (problem.gradient) {
    case GradientType::kBf16: return model.round_bf16(sum);
    case GradientType::kFp32: return sum;
    case GradientType::kMainGrad: break;
  }
  const Approx total{sum.value + static_cast<double>(problem.main_grad_initial), sum.error};
  return magnitude(sum) == 0.0 ? total : model.round_fp32(total);
}

Approx finish_shared_gradient(const Problem& problem, const ErrorModel& model, Approx sum) {
  if (problem.gradient != GradientType::kMainGrad) {
    return sum;
  }
  // One addition on each rank and one for each further rank; the sum's own part of their roundings
  // is in its factor (num_more_additions).
  const double initial = static_cast<double>(problem.main_grad_initial) * problem.num_ranks;
  const double rounding = ErrorModel::fp32_factor(problem.num_ranks) * std::abs(initial);
  const bool is_untouched = problem.num_ranks == 1 && magnitude(sum) == 0.0;
  return {sum.value + initial,
          sum.error + (is_untouched || initial == 0.0 ? 0.0 : rounding + model.underflow(1))};
}

Expected run_layer(const Problem& problem, Parts parts, int num_threads) {
  const int size = std::max(num_threads, 1);
  Layer layer(problem, parts, size);
  run_team(size, [&](const Member& member) {
    if (problem.shared_intermediate > 0) {
      layer.run_shared(member);
      member.meet();  // y, dx and ds of the shared expert are whole
      if (problem.shared_output_gate != nullptr) {
        layer.add_output_gate(member);
        member.meet();  // dx is whole: the routed experts share it out differently
      }
    }
    layer.run_routed(member);
    member.meet();  // all sums are whole
    layer.finish_tokens(member);
    layer.finish_gradients(member);
  });
  return std::move(layer.expected);
}

}  // namespace mok::reference
