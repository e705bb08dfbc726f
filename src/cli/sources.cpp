// sources.cpp: reading texts, recordings and files of inputs.
#include "cli/sources.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "cli/names.hpp"
#include "io/text.hpp"

namespace mok::cli {

namespace {

using Dims = std::vector<std::int64_t>;

// Inputs first, then what an outputs file holds beside them: such a file can be read again.
constexpr std::array<std::string_view, 21> kTensorNames = {"x",
                                                           "ids",
                                                           "weights",
                                                           "dy",
                                                           "gate",
                                                           "up",
                                                           "down",
                                                           "shared_gate",
                                                           "shared_up",
                                                           "shared_down",
                                                           "shared_output_gate",
                                                           "y",
                                                           "dx",
                                                           "d_router",
                                                           "d_gate",
                                                           "d_up",
                                                           "d_down",
                                                           "d_shared_gate",
                                                           "d_shared_up",
                                                           "d_shared_down",
                                                           "d_shared_output_gate"};

struct Reader {
  const io::SafetensorsFile& file;
  const std::string& path;

  template <class T>
  [[nodiscard]] Status expect(std::string_view name, const Dims& dims) const {
    Result<std::span<const T>> values = file.values<T>(name, dims);
    return values ? Status{} : in_flag("--inputs", path, values.error());
  }
  // Sizes of a tensor of two or three dimensions whose dtype and rank are right.
  template <class T>
  [[nodiscard]] Result<Dims> dims(std::string_view name, std::size_t num_dims) const {
    const Dims any(num_dims, io::kAnySize);
    if (Status status = expect<T>(name, any); !status.ok()) {
      return failure(std::move(status));
    }
    return (*file.find(name))->shape;
  }
};

template <class Id>
Status check_ids(std::span<const Id> ids, std::int64_t num_experts, const std::string& path) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < -1 || static_cast<std::int64_t>(ids[i]) >= num_experts) {
      return in_flag(
          "--inputs", path,
          Status::bad_file(
              path, "ids[" + std::to_string(i) + "] is " + std::to_string(ids[i]),
              "must be -1 (no route) or an expert from 0 to " + std::to_string(num_experts - 1)));
    }
  }
  return {};
}

bool has_shared_expert(const io::SafetensorsFile& file) {
  for (const char* name : {"shared_gate", "shared_up", "shared_down"}) {
    if (file.contains(name)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Status in_flag(const char* flag, const std::string& path, const Status& problem) {
  const std::string value = shown(path) + ": " + problem.value();
  return problem.code() == Code::kEnvironment ? Status::environment(flag, value, problem.rule())
                                              : Status::bad_file(flag, value, problem.rule());
}

Result<Sources> read_sources(const Case& description) {
  Sources sources;
  if (!description.inputs_path.empty()) {
    Result<io::SafetensorsFile> file = io::read_safetensors(description.inputs_path);
    if (!file) {
      return failure(in_flag("--inputs", description.inputs_path, file.error()));
    }
    sources.inputs = std::move(*file);
    return sources;
  }
  if (description.x == XSource::kText) {
    const std::string path = description.text_file();
    Result<std::vector<std::string>> words = io::read_words(path);
    if (!words) {
      return failure(in_flag("--x", path, words.error()));
    }
    sources.words = std::move(*words);
  }
  if (description.routing == RoutingSource::kFile) {
    Result<io::RecordedRouting> recording = io::read_routing_file(description.routing_path);
    if (!recording) {
      return failure(in_flag("--routing", description.routing_path, recording.error()));
    }
    sources.recording = std::move(*recording);
  }
  return sources;
}

Result<LayerShape> shape_of_inputs(const io::SafetensorsFile& file, const std::string& path) {
  const Reader reader{file, path};
  for (const io::Tensor& tensor : file.tensors()) {
    if (std::find(kTensorNames.begin(), kTensorNames.end(), tensor.name) == kTensorNames.end()) {
      return failure(in_flag("--inputs", path,
                             Status::bad_file(path, "unknown tensor " + io::in_quotes(tensor.name),
                                              "names are fixed; nearest is " +
                                                  nearest_word(tensor.name, kTensorNames))));
    }
  }
  Result<Dims> x = reader.dims<Bf16>("x", 2);
  Result<Dims> gate = reader.dims<Bf16>("gate", 3);
  Result<Dims> weights = reader.dims<float>("weights", 2);
  for (const Result<Dims>* dims : {&x, &gate, &weights}) {
    if (!*dims) {
      return failure(dims->error());
    }
  }
  LayerShape shape;
  shape.hidden = (*x)[1];
  shape.experts = (*gate)[0];
  shape.intermediate = (*gate)[1];
  shape.topk = (*weights)[1];
  if (has_shared_expert(file)) {
    Result<Dims> shared = reader.dims<Bf16>("shared_gate", 2);
    if (!shared) {
      return failure(shared.error());
    }
    shape.shared_intermediate = (*shared)[0];
  }
  shape.output_gate = file.contains("shared_output_gate");
  return shape;
}

std::int64_t tokens_of_inputs(const io::SafetensorsFile& file) {
  return (*file.find("x"))->shape[0];
}

Status check_inputs(const Case& description, const io::SafetensorsFile& file) {
  const std::string& path = description.inputs_path;
  const Reader reader{file, path};
  const LayerShape& shape = description.shape;
  const std::int64_t num_tokens = tokens_of_inputs(file);
  const std::int64_t hidden = shape.hidden;
  const Dims by_expert = {shape.experts, shape.intermediate, hidden};
  const Dims down = {shape.experts, hidden, shape.intermediate};
  const Dims shared = {shape.shared_intermediate, hidden};
  const Dims shared_down = {hidden, shape.shared_intermediate};

  std::vector<Status> results = {reader.expect<Bf16>("x", {num_tokens, hidden}),
                                 reader.expect<float>("weights", {num_tokens, shape.topk}),
                                 reader.expect<Bf16>("dy", {num_tokens, hidden}),
                                 reader.expect<Bf16>("gate", by_expert),
                                 reader.expect<Bf16>("up", by_expert),
                                 reader.expect<Bf16>("down", down)};
  if (has_shared_expert(file)) {
    results.push_back(reader.expect<Bf16>("shared_gate", shared));
    results.push_back(reader.expect<Bf16>("shared_up", shared));
    results.push_back(reader.expect<Bf16>("shared_down", shared_down));
  }
  if (shape.output_gate) {
    results.push_back(reader.expect<Bf16>("shared_output_gate", {hidden}));
  }
  for (Status& status : results) {
    if (!status.ok()) {
      return std::move(status);
    }
  }
  const Dims ids_dims = {num_tokens, shape.topk};
  if (const Result<std::span<const std::int64_t>> ids =
          file.values<std::int64_t>("ids", ids_dims)) {
    return check_ids(*ids, shape.experts, path);
  }
  const Result<std::span<const std::int32_t>> ids = file.values<std::int32_t>("ids", ids_dims);
  if (!ids) {
    return in_flag("--inputs", path, ids.error());
  }
  return check_ids(*ids, shape.experts, path);
}

}  // namespace mok::cli
