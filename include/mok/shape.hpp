// shape.hpp: what a layer is (LayerShape) and how MoK should run it (Options).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mok/status.hpp"

namespace mok {

// One mixture-of-experts layer. Sizes that MoK accepts: see validate() below.
struct LayerShape {
  std::int64_t max_tokens = 0;           // T_max: most tokens a rank brings to one call
  std::int64_t hidden = 0;               // H
  std::int64_t intermediate = 0;         // I
  std::int64_t shared_intermediate = 0;  // S: width of the shared expert, 0 = none
  std::int64_t experts = 0;              // E, over all ranks
  std::int64_t topk = 0;                 // k, slots a token
  bool output_gate = false;              // shared output times sigmoid(x . shared_output_gate)
  std::optional<float> swiglu_limit;     // L: gate <= L, up in [-L, L]
};

enum class Dispatch : std::uint8_t { kPull, kPush };
enum class Combine : std::uint8_t { kScatter, kPush, kPull };
enum class Save : std::uint8_t { kAll, kNone };
enum class Grad : std::uint8_t { kBf16, kFp32, kMainGrad };

// None but `engine` changes a bit of a result (determinism level schedule_invariant); with engine "auto"
// bits depend on the processor.
struct Options {
  Dispatch dispatch = Dispatch::kPull;     // x rows, token's rank -> expert's rank
  Combine combine = Combine::kScatter;     // y rows, expert's rank -> token's rank
  Dispatch dy_dispatch = Dispatch::kPull;  // dY rows in the backward
  Combine dx_combine = Combine::kScatter;  // dX rows in the backward
  std::int64_t ring_rows = 0;    // rows of each ring, a multiple of 64; 0 = default. Three
                                 // cells of a multiple of 64 rows are cut from it
  std::int64_t saved_rows = -1;  // rows a context keeps, a multiple of 64; -1 = default
  Save save = Save::kAll;        // what a forward leaves for its backward
  int workers = 0;               // CPU threads a rank; 0 = as many as the machine allows
  std::string engine = "auto";   // CPU instruction set: scalar, avx2, avx512_bf16
  std::int64_t join_deadline_ms = 600'000;     // longest wait for a rank to enter a call
  std::int64_t progress_deadline_ms = 10'000;  // longest silence of a rank inside a call
};

[[nodiscard]] std::string_view name(Dispatch value);
[[nodiscard]] std::string_view name(Combine value);
[[nodiscard]] std::string_view name(Save value);
[[nodiscard]] std::string_view name(Grad value);

// Defaults for ring_rows and saved_rows, both multiples of 64:
//   balanced = max_tokens * topk rows (what each rank gets when routing is even)
//   ring = balanced + 64 a local expert; saved = 1.25 * balanced + 64 a local expert.
[[nodiscard]] std::int64_t default_ring_rows(const LayerShape& shape, int num_ranks);
[[nodiscard]] std::int64_t default_saved_rows(const LayerShape& shape, int num_ranks);
[[nodiscard]] std::int64_t smallest_ring_rows();

// Checks every rule that needs no data; the first broken one is named. No side effect.
[[nodiscard]] Status validate(const LayerShape& shape, const Options& options, int num_ranks);

}  // namespace mok
