// outputs.cpp: hashing and writing results.
#include "cli/outputs.hpp"

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/interrupt.hpp"
#include "io/hash.hpp"
#include "io/safetensors.hpp"

namespace mok::cli {

namespace {

using reference::Output;
using Bytes = std::span<const std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
Bytes bytes_of(const GradArray& array) {
  return array.bf16.empty() ? bytes_of(array.fp32) : bytes_of(array.bf16);
}

Bytes step_bytes(const StepOutputs& step, Output output) {
  switch (output) {
    case Output::kY: return bytes_of(step.y);
    case Output::kDx: return bytes_of(step.dx);
    default: return bytes_of(step.d_router);
  }
}

Bytes gradient_bytes(const LayerGrads& grads, Output output) {
  switch (output) {
    case Output::kDGate: return bytes_of(grads.gate);
    case Output::kDUp: return bytes_of(grads.up);
    case Output::kDDown: return bytes_of(grads.down);
    case Output::kDSharedGate: return bytes_of(grads.shared[0]);
    case Output::kDSharedUp: return bytes_of(grads.shared[1]);
    case Output::kDSharedDown: return bytes_of(grads.shared[2]);
    default: return bytes_of(grads.shared[3]);
  }
}

class FileTensors {
 public:
  using Dims = std::vector<std::int64_t>;

  template <class T>
  void add(const char* name, Dims dims, const std::vector<T>& values) {
    tensors_.push_back(io::tensor_to_write(name, std::move(dims), std::span<const T>(values)));
  }
  // What a layer does not have is empty and stays out of the file.
  template <class T>
  void add_if_any(const char* name, Dims dims, const std::vector<T>& values) {
    if (!values.empty()) {
      add(name, std::move(dims), values);
    }
  }
  void add(const char* name, Dims dims, const GradArray& array) {
    if (array.bf16.empty()) {
      add(name, std::move(dims), array.fp32);
    } else {
      add(name, std::move(dims), array.bf16);
    }
  }
  [[nodiscard]] std::span<const io::TensorToWrite> tensors() const { return tensors_; }

 private:
  std::vector<io::TensorToWrite> tensors_;
};

}  // namespace

Hashes hash_outputs(const Execution& execution) {
  Hashes hashes;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const auto output = static_cast<Output>(i);
    io::Xxh64Stream stream;
    if (output <= Output::kDRouter) {
      for (const StepOutputs& step : execution.steps) {
        stream.update(step_bytes(step, output));
      }
    } else {
      const bool is_shared = output >= Output::kDSharedGate;
      if (is_shared && gradient_bytes(execution.layers.front(), output).empty()) {
        continue;
      }
      for (const LayerGrads& grads : execution.layers) {
        stream.update(gradient_bytes(grads, output));
      }
    }
    hashes[i] = io::hash_text(stream.digest());
  }
  return hashes;
}

Status write_outputs(const Case& description, const Batch& batch, const Execution& execution,
                     const std::string& path) {
  const LayerShape& shape = description.shape;
  const std::int64_t tokens = description.total_tokens();
  const std::int64_t hidden = shape.hidden;
  const StepInputs& inputs = batch.steps.front();
  const LayerWeights& weights = batch.layers.front();
  const StepOutputs& results = execution.steps.front();
  const LayerGrads& grads = execution.layers.front();
  const FileTensors::Dims states = {tokens, hidden};
  const FileTensors::Dims slots = {tokens, shape.topk};
  const FileTensors::Dims by_expert = {shape.experts, shape.intermediate, hidden};
  const FileTensors::Dims down = {shape.experts, hidden, shape.intermediate};
  const FileTensors::Dims shared = {shape.shared_intermediate, hidden};
  const FileTensors::Dims shared_down = {hidden, shape.shared_intermediate};

  FileTensors file;
  file.add("x", states, inputs.x);
  file.add("ids", slots, inputs.ids);
  file.add("weights", slots, inputs.weights);
  file.add("dy", states, inputs.dy);
  file.add("gate", by_expert, weights.gate);
  file.add("up", by_expert, weights.up);
  file.add("down", down, weights.down);
  file.add_if_any("shared_gate", shared, weights.shared_gate);
  file.add_if_any("shared_up", shared, weights.shared_up);
  file.add_if_any("shared_down", shared_down, weights.shared_down);
  file.add_if_any("shared_output_gate", {hidden}, weights.shared_output_gate);
  file.add("y", states, results.y);
  file.add("dx", states, results.dx);
  file.add("d_router", slots, results.d_router);
  file.add("d_gate", by_expert, grads.gate);
  file.add("d_up", by_expert, grads.up);
  file.add("d_down", down, grads.down);
  file.add_if_any("d_shared_gate", shared, grads.shared[0]);
  file.add_if_any("d_shared_up", shared, grads.shared[1]);
  file.add_if_any("d_shared_down", shared_down, grads.shared[2]);
  file.add_if_any("d_shared_output_gate", {hidden}, grads.shared[3]);
  const InterruptLater later;
  return io::write_safetensors(path, file.tensors());
}

}  // namespace mok::cli
