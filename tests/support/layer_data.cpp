// layer_data.cpp: draws batches, compares results with each other and with the reference.
#include "support/layer_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <sstream>

#include "cpu/engine/engine.hpp"
#include "reference/compare.hpp"

namespace mok::testing {

namespace {

enum class Draw : std::uint64_t {
  kX = 1,
  kDy,
  kGate,
  kUp,
  kDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kOutputGate,
  kId,
  kOff,
  kWeight
};

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
std::uint64_t bits(std::uint64_t seed, Draw array, std::uint64_t index) {
  return mix(mix(seed * 64 + static_cast<std::uint64_t>(array)) + index * 0x9e3779b97f4a7c15ULL);
}
std::uint64_t below(std::uint64_t seed, Draw array, std::uint64_t index, std::int64_t count) {
  return (bits(seed, array, index) >> 32) * static_cast<std::uint64_t>(count) >> 32;
}
// Mean 0, variance 1: the sum of four uniform numbers.
float normal(std::uint64_t seed, Draw array, std::uint64_t index) {
  const std::uint64_t z = bits(seed, array, index);
  float sum = -2.0F;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<float>((z >> (16 * i)) & 0xffffU) / 65536.0F;
  }
  return sum * 1.7320508F;
}
std::vector<Bf16> matrix(std::uint64_t seed, Draw array, std::int64_t count, double scale) {
  std::vector<Bf16> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = to_bf16(static_cast<float>(scale) * normal(seed, array, i));
  }
  return values;
}

int rank_of(const LayerSpec& spec, std::int64_t token) {
  int rank = 0;
  while (token >= spec.first_token(rank + 1)) {
    ++rank;
  }
  return rank;
}

std::int64_t draw_id(const LayerSpec& spec, std::int64_t token, std::int64_t slot) {
  const auto index = static_cast<std::uint64_t>(token * spec.topk + slot);
  const auto uniform = static_cast<std::int64_t>(below(spec.seed, Draw::kId, index, spec.experts));
  const auto experts = static_cast<std::uint32_t>(spec.experts);
  const auto ranks = static_cast<std::uint32_t>(spec.num_ranks());
  switch (spec.routes) {
    case Routes::kUniform: return uniform;
    case Routes::kSomeOff: return below(spec.seed, Draw::kOff, index, 10) == 0 ? -1 : uniform;
    case Routes::kTokensOff: return token % 3 == 1 ? -1 : uniform;
    case Routes::kRankOff: return rank_of(spec, token) == spec.hot ? -1 : uniform;
    case Routes::kAllOff: return -1;
    case Routes::kOneExpert: return spec.hot;
    case Routes::kOneRank: {
      const auto hot = static_cast<std::uint32_t>(spec.hot);
      const std::int64_t first = expert_begin(experts, ranks, hot);
      return first + uniform % std::max<std::int64_t>(1, local_experts(experts, ranks, hot));
    }
    case Routes::kRepeats: return slot < 2 ? spec.hot : (spec.hot + 2 * (slot - 1)) % spec.experts;
    case Routes::kFewExperts: return uniform / 3 * 3;
    case Routes::kSkewed:
      if (below(spec.seed, Draw::kOff, index, 10) == 0) {
        return -1;
      }
      return index % 2 == 0 || uniform == 0 ? 1 % spec.experts : uniform;
  }
  return -1;
}

template <class T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}
std::span<const std::byte> raw(const GradArray& a) {
  return a.kind == Grad::kBf16 ? raw(a.bf16) : raw(a.f32);
}

// Name and index of the first element that differs.
template <class Array>
std::string differs(const char* name, const Array& a, const Array& b) {
  const auto x = raw(a);
  const auto y = raw(b);
  if (x.size() != y.size()) {
    return std::string(name) + ": sizes differ";
  }
  const auto at = std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin();
  return at == std::ssize(x)
             ? ""
             : std::string(name) + " at element " +
                   std::to_string(static_cast<std::size_t>(at) / (x.size() / a.size()));
}

template <class T>
std::string excess(reference::Output output, const std::vector<T>& values,
                   const reference::Expected& expected) {
  const reference::Comparison c = reference::compare(std::span<const T>(values), expected[output]);
  if (values.empty() || (c.error_over_bound < 1.0 && c.num_unchecked == 0)) {
    return "";
  }
  std::ostringstream text;
  text << reference::output_name(output) << "[" << c.worst_index << "] = " << c.worst_result
       << ", reference " << c.worst_reference << ", bound " << c.worst_bound << ", error/bound "
       << c.error_over_bound << ", " << c.num_unchecked << " not finite";
  return text.str();
}
std::string excess(reference::Output output, const GradArray& a,
                   const reference::Expected& expected) {
  return a.kind == Grad::kBf16 ? excess(output, a.bf16, expected) : excess(output, a.f32, expected);
}
std::vector<float> sum_over_ranks(const std::vector<GradArray>& arrays) {
  std::vector<float> sum = arrays[0].f32;
  for (std::size_t rank = 1; rank < arrays.size(); ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += arrays[rank].f32[i];
    }
  }
  return sum;
}

reference::GradientType gradient_type(Grad kind) {
  switch (kind) {
    case Grad::kBf16: return reference::GradientType::kBf16;
    case Grad::kFp32: return reference::GradientType::kFp32;
    case Grad::kMainGrad: return reference::GradientType::kMainGrad;
  }
  return reference::GradientType::kBf16;
}

}  // namespace

std::int64_t LayerSpec::num_tokens() const {
  return std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
}
std::int64_t LayerSpec::first_token(int rank) const {
  return std::accumulate(tokens.begin(), tokens.begin() + rank, std::int64_t{0});
}
LayerShape LayerSpec::shape() const {
  LayerShape s;
  s.max_tokens = max_tokens > 0 ? max_tokens : *std::max_element(tokens.begin(), tokens.end());
  s.hidden = hidden;
  s.intermediate = intermediate;
  s.shared_intermediate = shared;
  s.experts = experts;
  s.topk = topk;
  s.output_gate = output_gate;
  if (limit > 0.0F) {
    s.swiglu_limit = limit;
  }
  return s;
}

std::ostream& operator<<(std::ostream& out, const LayerSpec& s) {
  out << "seed " << s.seed << ", tokens";
  for (const std::int64_t count : s.tokens) {
    out << ' ' << count;
  }
  const Options& o = s.options;
  return out << ", H " << s.hidden << ", I " << s.intermediate << ", S " << s.shared << ", E "
             << s.experts << ", k " << s.topk << ", output gate " << s.output_gate << ", limit "
             << s.limit << ", routes " << static_cast<int>(s.routes) << " hot " << s.hot
             << ", dispatch " << name(o.dispatch) << ' ' << name(o.dy_dispatch) << ", combine "
             << name(o.combine) << ' ' << name(o.dx_combine) << ", ring " << o.ring_rows
             << ", saved " << o.saved_rows << ", save " << name(o.save) << ", workers " << o.workers
             << ", engine " << o.engine << ", grad " << name(s.grad);
}

std::vector<std::int64_t> split_evenly(std::int64_t total, int num_ranks) {
  std::vector<std::int64_t> tokens;
  for (int rank = 0; rank < num_ranks; ++rank) {
    tokens.push_back(total / num_ranks + (rank < total % num_ranks ? 1 : 0));
  }
  return tokens;
}
std::vector<std::int64_t> split_unevenly(std::int64_t total, int num_ranks) {
  std::vector<std::int64_t> tokens;
  std::int64_t rest = total;
  for (int rank = 0; rank + 1 < num_ranks; ++rank) {
    tokens.push_back(rank % 3 == 1 ? 0 : rest / 2 + rank % 2);
    rest -= tokens.back();
  }
  tokens.push_back(rest);
  return tokens;
}

LayerData::LayerData(const LayerSpec& of) : spec(of) {
  const std::int64_t h = spec.hidden;
  const std::int64_t i = spec.intermediate;
  const std::int64_t s = spec.shared;
  const double in = 1.0 / std::sqrt(static_cast<double>(h));
  const double out = 1.0 / std::sqrt(static_cast<double>(i));
  const std::uint64_t seed = spec.seed;
  x = matrix(seed, Draw::kX, spec.num_tokens() * h, 1.0);
  dy = matrix(seed, Draw::kDy, spec.num_tokens() * h, 1.0);
  gate = matrix(seed, Draw::kGate, spec.experts * i * h, in);
  up = matrix(seed, Draw::kUp, spec.experts * i * h, in);
  down = matrix(seed, Draw::kDown, spec.experts * i * h, out);
  shared_gate = matrix(seed, Draw::kSharedGate, s * h, in);
  shared_up = matrix(seed, Draw::kSharedUp, s * h, in);
  shared_down = matrix(seed, Draw::kSharedDown, s * h, out);
  output_gate = matrix(seed, Draw::kOutputGate, h, in);
  for (std::int64_t token = 0; token < spec.num_tokens(); ++token) {
    for (std::int64_t slot = 0; slot < spec.topk; ++slot) {
      ids.push_back(static_cast<std::int32_t>(draw_id(spec, token, slot)));
      // Neither normalised nor positive; one in sixteen is 0.
      const std::uint64_t index = ids.size() - 1;
      weights.push_back(bits(seed, Draw::kOff, index) % 16 == 0
                            ? 0.0F
                            : 0.5F + 0.7F * normal(seed, Draw::kWeight, index));
    }
  }
}

reference::Problem LayerData::problem() const {
  reference::Problem p;
  p.num_tokens = spec.num_tokens();
  p.hidden = spec.hidden;
  p.intermediate = spec.intermediate;
  p.shared_intermediate = spec.shared;
  p.num_experts = spec.experts;
  p.topk = spec.topk;
  p.x = x.data();
  p.dy = dy.data();
  p.ids = ids.data();
  p.weights = weights.data();
  p.gate = gate.data();
  p.up = up.data();
  p.down = down.data();
  if (spec.shared > 0) {
    p.shared_gate = shared_gate.data();
    p.shared_up = shared_up.data();
    p.shared_down = shared_down.data();
    p.shared_output_gate = spec.output_gate ? output_gate.data() : nullptr;
  }
  if (spec.limit > 0.0F) {
    p.swiglu_limit = spec.limit;
  }
  p.accumulation = spec.options.engine == "avx512_bf16"
                       ? reference::AccumulationModel::kPairDot
                       : reference::AccumulationModel::kRoundToNearest;
  p.gradient = gradient_type(spec.grad);
  p.main_grad_initial = spec.grad == Grad::kMainGrad ? 1.0F : 0.0F;
  p.num_ranks = spec.num_ranks();
  return p;
}

Weights LayerData::rank_weights(int rank) const {
  const std::size_t first =
      expert_begin(static_cast<std::uint32_t>(spec.experts),
                   static_cast<std::uint32_t>(spec.num_ranks()), static_cast<std::uint32_t>(rank)) *
      expert_elements();
  const auto stride = static_cast<std::int64_t>(expert_elements());
  Weights w;
  w.gate = {gate.data() + first, stride, spec.hidden, nullptr};
  w.up = {up.data() + first, stride, spec.hidden, nullptr};
  w.down = {down.data() + first, stride, spec.intermediate, nullptr};
  if (spec.shared > 0) {
    w.shared_gate = {shared_gate.data(), 0, spec.hidden, nullptr};
    w.shared_up = {shared_up.data(), 0, spec.hidden, nullptr};
    w.shared_down = {shared_down.data(), 0, spec.shared, nullptr};
    w.shared_output_gate = spec.output_gate ? output_gate.data() : nullptr;
  }
  return w;
}

GradArray::GradArray(Grad of, std::size_t count) : kind(of) {
  if (of == Grad::kBf16) {
    bf16.assign(count, Bf16{0xffff});
  } else {
    f32.assign(count, of == Grad::kMainGrad ? 1.0F : std::nanf(""));
  }
}

LayerResult::LayerResult(const LayerData& data)
    : y(data.x.size(), Bf16{0xffff}),
      dx(data.x.size(), Bf16{0xffff}),
      d_router(data.weights.size(), std::nanf("")),
      gate(data.spec.grad, data.gate.size()),
      up(gate),
      down(gate),
      shared_gate(data.spec.tokens.size(),
                  GradArray(data.spec.shared_grad, data.shared_gate.size())),
      shared_up(shared_gate),
      shared_down(shared_gate),
      shared_output_gate(
          data.spec.tokens.size(),
          GradArray(data.spec.shared_grad,
                    data.spec.output_gate ? data.output_gate.size() : std::size_t{0})),
      forward(data.spec.tokens.size()),
      backward(data.spec.tokens.size()) {}

std::string first_difference(const LayerResult& a, const LayerResult& b, Shared shared) {
  std::vector<std::string> found{differs("y", a.y, b.y),
                                 differs("dx", a.dx, b.dx),
                                 differs("d_router", a.d_router, b.d_router),
                                 differs("d_gate", a.gate, b.gate),
                                 differs("d_up", a.up, b.up),
                                 differs("d_down", a.down, b.down)};
  if (shared == Shared::kCompare) {
    for (std::size_t rank = 0; rank < a.shared_gate.size(); ++rank) {
      found.push_back(differs("d_shared_gate", a.shared_gate[rank], b.shared_gate[rank]));
      found.push_back(differs("d_shared_up", a.shared_up[rank], b.shared_up[rank]));
      found.push_back(differs("d_shared_down", a.shared_down[rank], b.shared_down[rank]));
      found.push_back(
          differs("d_shared_output_gate", a.shared_output_gate[rank], b.shared_output_gate[rank]));
    }
  }
  const auto bad =
      std::find_if(found.begin(), found.end(), [](const auto& s) { return !s.empty(); });
  return bad == found.end() ? "" : *bad;
}

std::string first_excess(const reference::Problem& problem, const LayerResult& r) {
  using O = reference::Output;
  const reference::Expected expected = reference::compute(problem, 1);
  const std::string found[] = {
      excess(O::kY, r.y, expected),
      excess(O::kDx, r.dx, expected),
      excess(O::kDRouter, r.d_router, expected),
      excess(O::kDGate, r.gate, expected),
      excess(O::kDUp, r.up, expected),
      excess(O::kDDown, r.down, expected),
      excess(O::kDSharedGate, sum_over_ranks(r.shared_gate), expected),
      excess(O::kDSharedUp, sum_over_ranks(r.shared_up), expected),
      excess(O::kDSharedDown, sum_over_ranks(r.shared_down), expected),
      excess(O::kDSharedOutputGate, sum_over_ranks(r.shared_output_gate), expected)};
  for (const std::string& text : found) {
    if (!text.empty()) {
      return text;
    }
  }
  return "";
}

std::vector<std::string> engines() {
  std::vector<std::string> names;
  for (const char* name : {"scalar", "avx2", "avx512_bf16"}) {
    if (cpu::find_engine(name)) {
      names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace mok::testing
