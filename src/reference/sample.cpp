// sample.cpp: the reference at sampled tokens and sampled columns of sampled experts.
//
// A column i of an expert needs three sums over H for each row (gate, up and dh) and gives a row of
// d_gate and of d_up and a column of d_down; a token needs its own experts only. Both are the
// full form's code on a smaller problem, so the numbers are the same.
#include <algorithm>
#include <random>
#include <utility>

#include "reference/layer.hpp"
#include "reference/reference.hpp"

namespace mok::reference {
namespace {

std::size_t size_of(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

void append(SampledExpected& out, Output output, const Expected::Array& from, std::int64_t first,
            std::int64_t count, std::int64_t first_index) {
  for (std::int64_t i = 0; i < count; ++i) {
    out.values.push_back(
        {output, first_index + i, from.value[size_of(first + i)], from.bound[size_of(first + i)]});
  }
}

void sample_tokens(const Problem& problem, std::span<const std::int64_t> tokens, int num_threads,
                   SampledExpected& out) {
  const std::int64_t hidden = problem.hidden;
  const std::int64_t topk = problem.topk;
  std::vector<Bf16> x;
  std::vector<Bf16> dy;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  for (const std::int64_t t : tokens) {
    x.insert(x.end(), problem.x + t * hidden, problem.x + (t + 1) * hidden);
    dy.insert(dy.end(), problem.dy + t * hidden, problem.dy + (t + 1) * hidden);
    ids.insert(ids.end(), problem.ids + t * topk, problem.ids + (t + 1) * topk);
    weights.insert(weights.end(), problem.weights + t * topk, problem.weights + (t + 1) * topk);
  }
  Problem part = problem;
  part.num_tokens = static_cast<std::int64_t>(tokens.size());
  part.x = x.data();
  part.dy = dy.data();
  part.ids = ids.data();
  part.weights = weights.data();
  const Expected expected = run_layer(part, Parts::kTokensOnly, num_threads);
  for (const auto& [output, width] : {std::pair(Output::kY, hidden), std::pair(Output::kDx, hidden),
                                      std::pair(Output::kDRouter, topk)}) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      append(out, output, expected[output], static_cast<std::int64_t>(i) * width, width,
             tokens[i] * width);
    }
  }
}

// The weight gradients of some columns of one expert, not finished, each [columns, H].
struct ColumnGradients {
  Expected::Array gate;
  Expected::Array up;
  Expected::Array down;

  ColumnGradients(std::int64_t num_columns, std::int64_t hidden) {
    for (Expected::Array* array : {&gate, &up, &down}) {
      array->value.resize(size_of(num_columns * hidden));
      array->bound.resize(size_of(num_columns * hidden));
    }
  }
  [[nodiscard]] ExpertTask::Gradients views(std::int64_t hidden, std::int64_t num_more_additions) {
    const auto view = [hidden](Expected::Array& array) {
      return GradientView{array.value.data(), array.bound.data(), hidden, 1};
    };
    return {view(gate), view(up), view(down), num_more_additions};
  }
};

// Places of [columns, H] sums in the arrays of one expert whose first element has flat index
// `first`.
struct Place {
  Output gate;
  Output up;
  Output down;
  std::int64_t first = 0;
  std::int64_t intermediate = 0;
};

template <class Finish>
void append_columns(const Problem& problem, const ColumnGradients& gradients, const Place& place,
                    std::span<const std::int64_t> columns, Finish&& finish, SampledExpected& out) {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    for (std::int64_t h = 0; h < problem.hidden; ++h) {
      const std::size_t at = c * size_of(problem.hidden) + size_of(h);
      const auto add = [&](Output output, const Expected::Array& from, std::int64_t index) {
        const Approx done = finish(Approx{from.value[at], from.bound[at]});
        out.values.push_back({output, index, done.value, done.error});
      };
      const std::int64_t row_major = place.first + columns[c] * problem.hidden + h;
      add(place.gate, gradients.gate, row_major);
      add(place.up, gradients.up, row_major);
      add(place.down, gradients.down, place.first + h * place.intermediate + columns[c]);
    }
  }
}

void sample_experts(const Problem& problem, const SampleSpec& spec, int num_threads,
                    SampledExpected& out) {
  const ErrorModel model(problem.accumulation);
  const ExpertRows rows(problem);
  const auto num_columns = static_cast<std::int64_t>(spec.columns.size());
  ExpertEngine engine(problem, num_columns, problem.num_tokens * problem.topk, num_threads);
  for (const std::int64_t e : spec.experts) {
    const std::int64_t first = e * problem.intermediate * problem.hidden;
    ColumnGradients sums(num_columns, problem.hidden);
    const ExpertTask::Gradients gradients = sums.views(problem.hidden, 0);
    const ExpertTask task{.gate = problem.gate + first,
                          .up = problem.up + first,
                          .down = problem.down + first,
                          .intermediate = problem.intermediate,
                          .columns = spec.columns,
                          .rows = rows.of(e),
                          .gradients = &gradients};
    run_team(num_threads, [&](const Member& member) { engine.run(task, member); });
    append_columns(
        problem, sums, {Output::kDGate, Output::kDUp, Output::kDDown, first, problem.intermediate},
        spec.columns, [&](Approx sum) { return finish_gradient(problem, model, sum); }, out);
  }
}

void sample_shared(const Problem& problem, const SampleSpec& spec, int num_threads,
                   SampledExpected& out) {
  const ErrorModel model(problem.accumulation);
  const std::vector<Row> rows = shared_rows(problem, model);
  ExpertTask task{.gate = problem.shared_gate,
                  .up = problem.shared_up,
                  .down = problem.shared_down,
                  .intermediate = problem.shared_intermediate,
                  .columns = spec.shared_columns,
                  .rows = rows};
  const auto num_columns = static_cast<std::int64_t>(spec.shared_columns.size());
  if (num_columns > 0) {
    ExpertEngine engine(problem, num_columns, problem.num_tokens, num_threads);
    ColumnGradients sums(num_columns, problem.hidden);
    const ExpertTask::Gradients gradients = sums.views(problem.hidden, problem.num_ranks + 1);
    task.gradients = &gradients;
    run_team(num_threads, [&](const Member& member) { engine.run(task, member); });
    append_columns(
        problem, sums,
        {Output::kDSharedGate, Output::kDSharedUp, Output::kDSharedDown, 0,
         problem.shared_intermediate},
        spec.shared_columns,
        [&](Approx sum) { return finish_shared_gradient(problem, model, sum); }, out);
  }
  if (problem.shared_output_gate == nullptr || spec.output_gate == SampleSpec::OutputGate::kSkip) {
    return;
  }
  const std::vector<std::int64_t> columns = all_columns(problem.shared_intermediate);
  ExpertEngine engine(problem, problem.shared_intermediate, problem.num_tokens, num_threads);
  std::vector<Approx> ds(rows.size());
  task.columns = columns;
  task.gradients = nullptr;
  task.d_scale = ds.data();
  run_team(num_threads, [&](const Member& member) { engine.run(task, member); });
  const std::vector<Approx> dz = gate_logit_gradients(rows, ds, model);
  append(out, Output::kDSharedOutputGate, output_gate_gradient(problem, dz, model), 0,
         problem.hidden, 0);
}

// `count` different numbers below `limit`, the `fixed` ones first.
std::vector<std::int64_t> draw(std::int64_t count, std::int64_t limit,
                               std::span<const std::int64_t> fixed, std::mt19937_64& generator) {
  std::vector<std::int64_t> chosen;
  const auto add = [&](std::int64_t candidate) {
    if (std::find(chosen.begin(), chosen.end(), candidate) == chosen.end()) {
      chosen.push_back(candidate);
    }
  };
  const std::int64_t wanted = std::min(count, limit);
  for (const std::int64_t candidate : fixed) {
    if (static_cast<std::int64_t>(chosen.size()) < wanted) {
      add(candidate);
    }
  }
  if (2 * wanted > limit) {  // drawing would repeat itself: shuffle by hand (the same on all hosts)
    std::vector<std::int64_t> all = all_columns(limit);
    for (std::size_t i = all.size(); i > 1; --i) {
      std::swap(all[i - 1], all[static_cast<std::size_t>(generator() % i)]);
    }
    for (std::size_t i = 0; static_cast<std::int64_t>(chosen.size()) < wanted; ++i) {
      add(all[i]);
    }
  }
  while (static_cast<std::int64_t>(chosen.size()) < wanted) {
    add(static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(limit)));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

bool in_range(std::span<const std::int64_t> indices, std::int64_t limit) {
  return std::all_of(indices.begin(), indices.end(),
                     [limit](std::int64_t i) { return i >= 0 && i < limit; });
}

}  // namespace

SampleSpec draw_sample(const Problem& problem, const SampleLimits& limits, std::uint64_t seed) {
  SampleSpec spec;
  if (!check(problem).ok()) {
    return spec;
  }
  const ExpertRows rows(problem);
  std::int64_t busiest = 0;
  for (std::int64_t e = 1; e < problem.num_experts; ++e) {
    busiest = rows.of(e).size() > rows.of(busiest).size() ? e : busiest;
  }
  std::mt19937_64 generator(seed);
  if (problem.num_tokens > 0) {
    const std::int64_t ends[] = {0, problem.num_tokens - 1};
    spec.tokens = draw(limits.num_tokens, problem.num_tokens, ends, generator);
  }
  spec.experts = draw(limits.num_experts, problem.num_experts, {&busiest, 1}, generator);
  spec.columns = draw(limits.num_columns, problem.intermediate, {}, generator);
  spec.shared_columns = draw(limits.num_shared_columns, problem.shared_intermediate, {}, generator);
  return spec;
}

SampledExpected compute_sample(const Problem& problem, const SampleSpec& spec, int num_threads) {
  SampledExpected out;
  if (!check(problem).ok() || !in_range(spec.tokens, problem.num_tokens) ||
      !in_range(spec.experts, problem.num_experts) ||
      !in_range(spec.columns, problem.intermediate) ||
      !in_range(spec.shared_columns, problem.shared_intermediate)) {
    return out;
  }
  const int size = std::max(num_threads, 1);
  sample_tokens(problem, spec.tokens, size, out);
  sample_experts(problem, spec, size, out);
  if (problem.shared_intermediate > 0) {
    sample_shared(problem, spec, size, out);
  }
  std::stable_sort(
      out.values.begin(), out.values.end(),
      [](const SampledValue& a, const SampledValue& b) { return a.output < b.output; });
  return out;
}

}  // namespace mok::reference
