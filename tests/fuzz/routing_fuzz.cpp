// routing_fuzz.cpp: any bytes either give one clean refusal or routing that keeps its rules.
#include <cmath>
#include <vector>

#include "fuzz_check.hpp"
#include "io/routing_file.hpp"

namespace {

using mok::fuzz::check_refusal;
using mok::fuzz::require;

void check_routing(const mok::io::RecordedRouting& routing) {
  require(routing.num_experts >= 1 && routing.num_experts <= mok::io::kMaxExperts, "experts");
  require(
      routing.topk >= 1 && routing.topk <= mok::io::kMaxTopk && routing.topk <= routing.num_experts,
      "topk");
  const auto topk = static_cast<std::size_t>(routing.topk);
  require(routing.num_tokens >= 1, "tokens");
  require(routing.ids.size() == static_cast<std::size_t>(routing.num_tokens) * topk, "ids");
  require(routing.weights.size() == routing.ids.size(), "weights");
  for (std::size_t i = 0; i < routing.ids.size(); ++i) {
    require(routing.ids[i] >= -1 && routing.ids[i] < routing.num_experts, "id in range");
    require(std::isfinite(routing.weights[i]), "weight finite");
  }
  std::vector<std::int32_t> ids(3 * topk);
  std::vector<float> weights(3 * topk);
  require(mok::io::repeat_routing(routing, routing.num_tokens - 1, ids, weights).ok(), "repeat");
  require(
      std::equal(ids.begin() + routing.topk, ids.begin() + 2 * routing.topk, routing.ids.begin()),
      "the recording starts again after its end");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto routing = mok::io::parse_routing(std::as_bytes(std::span(data, size)), "input");
  if (routing) {
    check_routing(*routing);
  } else {
    check_refusal(routing.error());
  }
  return 0;
}
