// case.hpp: a complete description of one run: shape, options, where the input comes from, seed.
//
// A case and the version of MoK determine every bit of the results (of one engine). It is written
// as a JSON file by `mok verify` and read by `mok run --case FILE`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mok/shape.hpp"
#include "mok/status.hpp"

namespace mok::cli {

enum class XSource : std::uint8_t { kText, kRandom };
enum class RoutingSource : std::uint8_t {
  kRouter,   // a linear router over x
  kUniform,  // drawn, as io/routing_draw.hpp says
  kZipf,
  kHot,
  kFile,
  kRandom,  // case files only: any ids with -1 and duplicates, weights of both signs
};
enum class CheckMode : std::uint8_t { kFull, kSample, kOff };

struct Case {
  std::vector<std::int64_t> tokens = {64, 64, 64, 64};  // of each rank
  LayerShape shape = {.max_tokens = 64,
                      .hidden = 512,
                      .intermediate = 256,
                      .shared_intermediate = 256,
                      .experts = 16,
                      .topk = 4,
                      .output_gate = false,
                      .swiglu_limit = {}};
  Options options;
  Grad grad = Grad::kBf16;
  std::int64_t layers = 1;
  std::int64_t microbatches = 1;
  std::uint64_t seed = 1;
  XSource x = XSource::kText;
  std::string text_path;  // empty: the default text
  RoutingSource routing = RoutingSource::kRouter;
  std::string routing_path;
  std::string inputs_path;  // empty: x and routing as above, the rest drawn

  [[nodiscard]] int num_ranks() const { return static_cast<int>(tokens.size()); }
  [[nodiscard]] std::int64_t total_tokens() const;
  // Sets shape.max_tokens, which follows from the tokens (at least 1, so that a run without any
  // token still has rings).
  void set_max_tokens();
  [[nodiscard]] std::string text_file() const;
};

// One JSON object, a key a line.
[[nodiscard]] std::string case_text(const Case& description);
[[nodiscard]] Status write_case(const Case& description, const std::string& path);

// Keys that are absent keep their defaults; unknown keys, wrong types and values that no case can
// have are refused. Sizes are checked by validate_case().
[[nodiscard]] Result<Case> read_case(const std::string& path);
[[nodiscard]] Result<Case> parse_case(const std::string& text, const std::string& path);

}  // namespace mok::cli
