// request_files.cpp: sizes that come from files: a recording's experts, everything of a file of inputs.
#include <string>

#include "cli/flag_sizes.hpp"
#include "cli/names.hpp"
#include "cli/request.hpp"

namespace mok::cli {

Status fit_to_sources(const Flags& flags, const Sources& sources, Case& description) {
  LayerShape& shape = description.shape;
  if (sources.recording) {
    const io::RecordedRouting& recording = *sources.recording;
    if (flags.given("--case") &&
        (shape.experts != recording.num_experts || shape.topk != recording.topk)) {
      return Status::bad_argument("--case", "other experts or topk than its routing file",
                                  "must agree with the file's header");
    }
    const FlagSize sizes[] = {{"--experts", recording.num_experts}, {"--topk", recording.topk}};
    const std::string owner = "--routing file:" + shown(description.routing_path);
    if (const std::string* model = flags.find("--model");
        model != nullptr &&
        (shape.experts != recording.num_experts || shape.topk != recording.topk)) {
      return Status::bad_argument("--model", *model,
                                  "contradicts " + owner + " with " +
                                      std::to_string(recording.num_experts) + " experts, top-" +
                                      std::to_string(recording.topk));
    }
    if (Status status = same_sizes(flags, sizes, owner); !status.ok()) {
      return status;
    }
    shape.experts = recording.num_experts;
    shape.topk = recording.topk;
  }
  if (!sources.inputs) {
    return {};
  }
  const std::string owner = "--inputs " + shown(description.inputs_path);
  Result<LayerShape> found = shape_of_inputs(*sources.inputs, description.inputs_path);
  if (!found) {
    return found.error();
  }
  const FlagSize sizes[] = {{"--hidden", found->hidden},
                            {"--intermediate", found->intermediate},
                            {"--shared-intermediate", found->shared_intermediate},
                            {"--experts", found->experts},
                            {"--topk", found->topk}};
  if (Status status = same_sizes(flags, sizes, owner); !status.ok()) {
    return status;
  }
  if (flags.given("--output-gate") && !found->output_gate) {
    return Status::bad_argument("--output-gate", "given",
                                "contradicts " + owner + ", which has no shared_output_gate");
  }
  const std::int64_t num_tokens = tokens_of_inputs(*sources.inputs);
  if (flags.given("--tokens") || flags.given("--case")) {
    if (description.total_tokens() != num_tokens) {
      return Status::bad_argument(
          "--tokens", std::to_string(description.total_tokens()) + " in all",
          "contradicts " + owner + ", which has " + std::to_string(num_tokens));
    }
  } else {
    const std::int64_t num_ranks = description.num_ranks();
    for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
      description.tokens[static_cast<std::size_t>(rank)] =
          num_tokens / num_ranks + (rank < num_tokens % num_ranks ? 1 : 0);
    }
  }
  found->swiglu_limit = shape.swiglu_limit;
  shape = *found;
  description.set_max_tokens();
  return {};
}

}  // namespace mok::cli
