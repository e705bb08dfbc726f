// batch.cpp: draws, words, recordings and files into the global batch.
#include "cli/batch.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <thread>

#include "io/draw.hpp"
#include "io/routing_draw.hpp"

namespace mok::cli {

namespace {

using io::Purpose;

// body(i) for 0 <= i < count, shared out over the machine's threads; each i writes its own memory.
template <class Body>
void for_each_parallel(std::int64_t count, const Body& body) {
  const auto num_threads = std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1,
                                                    std::max<std::int64_t>(count, 1));
  std::vector<std::jthread> threads;
  for (std::int64_t first = 1; first < num_threads; ++first) {
    threads.emplace_back([&body, first, count, num_threads] {
      for (std::int64_t i = first; i < count; i += num_threads) {
        body(i);
      }
    });
  }
  for (std::int64_t i = 0; i < count; i += num_threads) {
    body(i);
  }
}

// Element i of the array is element i of the stream, whoever draws it.
void draw_array(std::vector<Bf16>& out, std::int64_t size, std::uint64_t seed, std::uint64_t stream,
                std::int64_t fan_in) {
  out.resize(static_cast<std::size_t>(size));
  const float scale = 1.0F / std::sqrt(static_cast<float>(fan_in));
  constexpr std::int64_t kPart = std::int64_t{1} << 16;
  for_each_parallel((size + kPart - 1) / kPart, [&](std::int64_t part) {
    const std::int64_t first = part * kPart;
    const auto count = static_cast<std::size_t>(std::min(kPart, size - first));
    io::fill_normal_bf16(std::span(out).subspan(static_cast<std::size_t>(first), count), seed,
                         stream, static_cast<std::uint64_t>(first), scale);
  });
}

LayerWeights draw_weights(const Case& description, std::uint32_t layer) {
  const LayerShape& shape = description.shape;
  const std::uint64_t seed = description.seed;
  const std::int64_t hidden = shape.hidden;
  const std::int64_t shared = shape.shared_intermediate;
  const std::int64_t matrices = shape.experts * shape.intermediate * hidden;
  const auto stream = [layer](Purpose purpose) { return io::stream_id(purpose, layer); };
  LayerWeights out;
  draw_array(out.gate, matrices, seed, stream(Purpose::kGateWeight), hidden);
  draw_array(out.up, matrices, seed, stream(Purpose::kUpWeight), hidden);
  draw_array(out.down, matrices, seed, stream(Purpose::kDownWeight), shape.intermediate);
  if (shared > 0) {
    draw_array(out.shared_gate, shared * hidden, seed, stream(Purpose::kSharedGateWeight), hidden);
    draw_array(out.shared_up, shared * hidden, seed, stream(Purpose::kSharedUpWeight), hidden);
    draw_array(out.shared_down, shared * hidden, seed, stream(Purpose::kSharedDownWeight), shared);
  }
  if (shape.output_gate) {
    draw_array(out.shared_output_gate, hidden, seed, stream(Purpose::kSharedOutputGate), hidden);
  }
  return out;
}

// The rows of a text's words, from `first_word` on, the text repeated without end.
void fill_from_words(std::vector<Bf16>& x, const std::vector<std::string>& words,
                     std::int64_t first_word, std::int64_t num_tokens, std::int64_t hidden,
                     std::uint64_t seed) {
  x.resize(static_cast<std::size_t>(num_tokens * hidden));
  const auto num_words = static_cast<std::int64_t>(words.size());
  const auto width = static_cast<std::size_t>(hidden);
  for_each_parallel(num_tokens, [&](std::int64_t token) {
    const auto word = static_cast<std::size_t>((first_word + token) % num_words);
    io::fill_word_state(std::span(x).subspan(static_cast<std::size_t>(token) * width, width),
                        words[word], seed);
  });
}

// Any ids: about a tenth without a route, experts drawn with repetition, weights of both signs.
void draw_random_routing(const Case& description, std::uint64_t stream, StepInputs& out) {
  const auto bound = static_cast<std::uint64_t>(description.shape.experts);
  for (std::size_t i = 0; i < out.ids.size(); ++i) {
    const bool has_route = io::below(10, description.seed, stream, 2 * i) != 0;
    const std::uint64_t expert = io::below(bound, description.seed, stream, 2 * i + 1);
    out.ids[i] = has_route ? static_cast<std::int32_t>(expert) : -1;
  }
  io::fill_normal(out.weights, description.seed, stream ^ 1U, 0);
}

struct StepPlace {
  std::uint32_t layer;
  std::uint32_t microbatch;
  std::int64_t first_token;  // in texts and recordings, over all steps
};

Status draw_routing_of(const Case& description, const Sources& sources, StepPlace place,
                       const std::optional<io::Router>& router, StepInputs& out) {
  const LayerShape& shape = description.shape;
  const auto slots = static_cast<std::size_t>(description.total_tokens() * shape.topk);
  out.ids.resize(slots);
  out.weights.resize(slots);
  const int topk = static_cast<int>(shape.topk);
  const std::uint64_t stream = io::stream_id(Purpose::kRoutingLogit, place.layer, place.microbatch);
  const auto drawn = [&](io::DrawnRouting kind) {
    return io::draw_routing(kind, {shape.experts, topk}, description.seed, stream, 0, out.ids,
                            out.weights);
  };
  switch (description.routing) {
    case RoutingSource::kRouter: return router->route(out.x, topk, out.ids, out.weights);
    case RoutingSource::kUniform: return drawn(io::DrawnRouting::kUniform);
    case RoutingSource::kZipf: return drawn(io::DrawnRouting::kZipf);
    case RoutingSource::kHot: return drawn(io::DrawnRouting::kHot);
    case RoutingSource::kFile:
      return io::repeat_routing(*sources.recording, place.first_token, out.ids, out.weights);
    case RoutingSource::kRandom:
      draw_random_routing(
          description, io::stream_id(Purpose::kTestCase, place.layer, 2 * place.microbatch), out);
      return {};
  }
  return {};
}

Result<StepInputs> draw_step(const Case& description, const Sources& sources, StepPlace place,
                             const std::optional<io::Router>& router) {
  const std::int64_t num_tokens = description.total_tokens();
  const std::int64_t hidden = description.shape.hidden;
  StepInputs out;
  if (description.x == XSource::kText) {
    fill_from_words(out.x, sources.words, place.first_token, num_tokens, hidden, description.seed);
  } else {
    draw_array(out.x, num_tokens * hidden, description.seed,
               io::stream_id(Purpose::kTokenState, place.layer, place.microbatch), 1);
  }
  draw_array(out.dy, num_tokens * hidden, description.seed,
             io::stream_id(Purpose::kOutputGradient, place.layer, place.microbatch), 1);
  if (Status status = draw_routing_of(description, sources, place, router, out); !status.ok()) {
    return failure(std::move(status));
  }
  return out;
}

template <class T>
std::vector<T> copy_of(const io::SafetensorsFile& file, const char* name) {
  if (!file.contains(name)) {
    return {};
  }
  const std::span<const std::byte> bytes = (*file.find(name))->bytes;
  const auto* begin = reinterpret_cast<const T*>(bytes.data());
  return std::vector<T>(begin, begin + bytes.size() / sizeof(T));
}

// check_inputs() has held dtypes and shapes against the case.
Batch batch_of_inputs(const io::SafetensorsFile& file) {
  StepInputs step;
  step.x = copy_of<Bf16>(file, "x");
  step.dy = copy_of<Bf16>(file, "dy");
  step.weights = copy_of<float>(file, "weights");
  if ((*file.find("ids"))->dtype == io::Dtype::kI64) {
    const std::vector<std::int64_t> ids = copy_of<std::int64_t>(file, "ids");
    step.ids.resize(ids.size());
    std::transform(ids.begin(), ids.end(), step.ids.begin(),
                   [](std::int64_t id) { return static_cast<std::int32_t>(id); });
  } else {
    step.ids = copy_of<std::int32_t>(file, "ids");
  }
  LayerWeights weights;
  weights.gate = copy_of<Bf16>(file, "gate");
  weights.up = copy_of<Bf16>(file, "up");
  weights.down = copy_of<Bf16>(file, "down");
  weights.shared_gate = copy_of<Bf16>(file, "shared_gate");
  weights.shared_up = copy_of<Bf16>(file, "shared_up");
  weights.shared_down = copy_of<Bf16>(file, "shared_down");
  weights.shared_output_gate = copy_of<Bf16>(file, "shared_output_gate");
  Batch batch;
  batch.steps.push_back(std::move(step));
  batch.layers.push_back(std::move(weights));
  return batch;
}

}  // namespace

Result<Batch> build_batch(const Case& description, const Sources& sources) {
  if (sources.inputs) {
    return batch_of_inputs(*sources.inputs);
  }
  Batch batch;
  batch.microbatches = description.microbatches;
  for (std::int64_t layer = 0; layer < description.layers; ++layer) {
    const auto layer_number = static_cast<std::uint32_t>(layer);
    batch.layers.push_back(draw_weights(description, layer_number));
    std::optional<io::Router> router;
    if (description.routing == RoutingSource::kRouter) {
      Result<io::Router> drawn =
          io::Router::draw(description.shape.experts, description.shape.hidden, description.seed,
                           io::stream_id(Purpose::kRouterMatrix, layer_number));
      if (!drawn) {
        return failure(drawn.error());
      }
      router = std::move(*drawn);
    }
    for (std::int64_t microbatch = 0; microbatch < description.microbatches; ++microbatch) {
      const std::int64_t step = layer * description.microbatches + microbatch;
      Result<StepInputs> inputs = draw_step(
          description, sources,
          {layer_number, static_cast<std::uint32_t>(microbatch), step * description.total_tokens()},
          router);
      if (!inputs) {
        return failure(inputs.error());
      }
      batch.steps.push_back(std::move(*inputs));
    }
  }
  return batch;
}

}  // namespace mok::cli
