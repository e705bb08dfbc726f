// validate.cpp: the rules of a case.
#include "cli/validate.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "cpu/engine/engine.hpp"

namespace mok::cli {

namespace {

struct NumberCheck {
  const char* flag;
  std::int64_t value;
  NumberRule rule;
};

Status check_numbers(const Case& description) {
  const LayerShape& shape = description.shape;
  const Options& options = description.options;
  std::vector<NumberCheck> checks = {
      {"--ranks", static_cast<std::int64_t>(description.tokens.size()), kRanksRule},
      {"--hidden", shape.hidden, kMatrixRule},
      {"--intermediate", shape.intermediate, kMatrixRule},
      {"--shared-intermediate", shape.shared_intermediate, kSharedRule},
      {"--experts", shape.experts, kExpertsRule},
      {"--topk", shape.topk, kTopkRule},
      {"--layers", description.layers, kLayersRule},
      {"--microbatches", description.microbatches, kLayersRule},
      {"--join-deadline-ms", options.join_deadline_ms, kDeadlineRule},
      {"--progress-deadline-ms", options.progress_deadline_ms, kDeadlineRule},
  };
  if (options.workers != 0) {
    checks.push_back({"--workers", options.workers, kWorkersRule});
  }
  if (options.ring_rows != 0) {
    checks.push_back({"--ring-rows", options.ring_rows, ring_rows_rule()});
  }
  if (options.saved_rows != -1) {
    checks.push_back({"--saved-rows", options.saved_rows, kSavedRowsRule});
  }
  for (const std::int64_t tokens : description.tokens) {
    checks.push_back({"--tokens", tokens, kTokensRule});
  }
  for (const NumberCheck& check : checks) {
    if (Status status = check_number(check.flag, check.value, check.rule); !status.ok()) {
      return status;
    }
  }
  return {};
}

Status check_together(const Case& description) {
  const LayerShape& shape = description.shape;
  if (shape.topk > shape.experts) {
    return Status::bad_argument("--topk", std::to_string(shape.topk),
                                "must not be above --experts " + std::to_string(shape.experts));
  }
  if (shape.output_gate && shape.shared_intermediate == 0) {
    return Status::bad_argument("--output-gate", "given",
                                "needs a shared expert: --shared-intermediate above 0");
  }
  if (shape.swiglu_limit && !(std::isfinite(*shape.swiglu_limit) && *shape.swiglu_limit > 0)) {
    return Status::bad_argument("--swiglu-limit", std::to_string(*shape.swiglu_limit),
                                "must be a finite number above 0");
  }
  if (description.options.save == Save::kNone && description.options.saved_rows > 0) {
    return Status::bad_argument("--saved-rows", std::to_string(description.options.saved_rows),
                                "contradicts --save none, which keeps 0 rows");
  }
  return {};
}

}  // namespace

NumberRule ring_rows_rule() {
  return {smallest_ring_rows(), kLargestSize, 64};
}

Status validate_case(const Case& description) {
  if (Status status = check_numbers(description); !status.ok()) {
    return status;
  }
  if (Status status = check_together(description); !status.ok()) {
    return status;
  }
  if (const auto engine = cpu::find_engine(description.options.engine); !engine) {
    return with_flag_name(engine.error());
  }
  return {};
}

Status library_rules(const Case& description) {
  return with_flag_name(validate(description.shape, description.options, description.num_ranks()));
}

std::string flag_of_field(std::string_view field) {
  std::string name{field};
  for (char& letter : name) {
    letter = letter == '_' ? '-' : letter;
  }
  if (name == "max-tokens") {
    return "--tokens";
  }
  if (name == "num-ranks") {
    return "--ranks";
  }
  for (const std::string_view known :
       {"tokens",     "ranks",       "hidden",      "intermediate",     "shared-intermediate",
        "experts",    "topk",        "output-gate", "swiglu-limit",     "ring-rows",
        "saved-rows", "save",        "workers",     "engine",           "dispatch",
        "combine",    "dy-dispatch", "dx-combine",  "join-deadline-ms", "progress-deadline-ms"}) {
    if (name == known) {
      return "--" + name;
    }
  }
  return std::string{field};
}

Status with_flag_name(const Status& status) {
  if (status.code() == Code::kBadArgument) {
    return Status::bad_argument(flag_of_field(status.argument()), status.value(), status.rule());
  }
  if (status.code() == Code::kEnvironment) {
    return Status::environment(flag_of_field(status.argument()), status.value(), status.rule());
  }
  return status;
}

}  // namespace mok::cli
