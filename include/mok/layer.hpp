// layer.hpp: the layer: workspace, context, forward, backward, recompute.
//
// Threads: a Workspace serves one call at a time; calls on different workspaces are independent. A call
// on R > 1 ranks must be made by all ranks, in the same order and with the matching context; it waits
// for them, so ranks in one process call from threads of their own. Calls block until the results are
// there. Tensors belong to the caller and must stay valid and unchanged (inputs) until the call returns.
// Determinism: docs/determinism.md. Errors: docs/errors.md; a failed call inside the group poisons the
// workspace, a refused one (bad argument) leaves everything as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mok/shape.hpp"
#include "mok/status.hpp"
#include "mok/tensors.hpp"
#include "mok/world.hpp"

namespace mok {

// Bytes by name, in the order of docs/memory.md; the total is what is allocated.
struct MemoryTerm {
  std::string name;
  std::uint64_t bytes = 0;
};
struct MemoryFormula {
  std::vector<MemoryTerm> workspace;  // arena and local memory of one rank
  std::vector<MemoryTerm> context;    // of one context
  std::uint64_t workspace_bytes = 0;
  std::uint64_t context_bytes = 0;
};
// Functions of shape and options alone; nothing is allocated. Refuses what does not fit 64 bits.
[[nodiscard]] Result<MemoryFormula> memory_formula(const LayerShape& shape, const Options& options,
                                                   int num_ranks);
[[nodiscard]] Result<std::uint64_t> workspace_bytes(const LayerShape& shape, const Options& options,
                                                    int num_ranks);

struct TransferCounts {
  std::uint64_t bytes = 0;  // rows of x, y, dY, dX that crossed ranks (no flags, slots, weights)
  std::uint64_t remote_reads = 0;   // rows this rank read from others
  std::uint64_t remote_writes = 0;  // rows this rank wrote to others
};

// What one call of one rank did.
struct CallReport {
  std::uint64_t epoch = 0;  // number of the call
  std::int64_t rows = 0;    // (token, slot) pairs computed here
  std::int64_t padded_rows = 0;
  std::int64_t phases = 0;
  std::int64_t ring_turns = 0;     // times the ring's cells were filled anew
  std::int64_t replayed_rows = 0;  // backward: rows beyond the context, computed again
  TransferCounts dispatch, combine, dy_dispatch, dx_combine;
  double route_ms = 0;  // sort, count exchange, tables
  double run_ms = 0;    // the rest of the call
};

// Read-only view of what routing produced at this rank.
struct RouteTables {
  std::int64_t num_rows = 0;
  std::int64_t num_padded_rows = 0;
  std::int64_t num_blocks = 0;
  std::int64_t num_phases = 0;
  std::int64_t saved_rows = 0;                // padded rows that the context holds
  std::vector<std::int64_t> rows_per_expert;  // local experts
};

class Context;

// One rank's memory for any number of layers of one shape. Move-only; a moved-from one may only be
// destroyed or assigned to (the same holds for Context).
class Workspace {
 public:
  // Allocates; does not wait for other ranks (the first call does). All ranks must pass the same shape
  // and options, or their first call fails with call_mismatch.
  [[nodiscard]] static Result<Workspace> create(const World& world, const LayerShape& shape,
                                                const Options& options);
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  ~Workspace();

  [[nodiscard]] const LayerShape& shape() const;
  [[nodiscard]] const Options& options() const;  // defaults filled in
  [[nodiscard]] std::string_view engine() const;
  [[nodiscard]] int rank() const;
  [[nodiscard]] int num_ranks() const;
  [[nodiscard]] std::uint64_t allocated_bytes() const;

  class Impl;  // MoK's own
  explicit Workspace(std::unique_ptr<Impl> impl);
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// What a forward leaves for its backward. Belongs to the caller; may be used again for another forward,
// dropped at any time, and read by any number of backwards. Move-only.
class Context {
 public:
  [[nodiscard]] static Result<Context> create(const Workspace& workspace);
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  [[nodiscard]] bool filled() const;  // a forward has filled it
  [[nodiscard]] RouteTables routes() const;
  [[nodiscard]] std::uint64_t allocated_bytes() const;

  class Impl;  // MoK's own
  explicit Context(std::unique_ptr<Impl> impl);
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

struct ForwardArgs {
  std::int64_t tokens = 0;  // 0 .. max_tokens, may differ between ranks
  const Bf16* x = nullptr;  // [tokens, H]
  Routing routing;
  Weights weights;
  Bf16* y = nullptr;           // [tokens, H], overwritten
  Context* context = nullptr;  // nullptr: inference, nothing is kept
};
[[nodiscard]] Result<CallReport> forward(Workspace& workspace, const ForwardArgs& args);

struct BackwardArgs {
  const Context* context = nullptr;  // of the forward
  const Bf16* x = nullptr;           // [tokens, H], as in the forward
  const Bf16* dy = nullptr;          // [tokens, H]
  Weights weights;                   // as in the forward
  Bf16* dx = nullptr;                // [tokens, H], overwritten (router's share not included)
  float* d_router = nullptr;         // [tokens, k], overwritten: dL/d(router weight), 0 for id -1
  WeightGrads grads;
};
[[nodiscard]] Result<CallReport> backward(Workspace& workspace, const BackwardArgs& args);

// Activation checkpointing. release_saved frees what a context has saved and keeps its routing; a
// backward then computes all rows again (on every rank or on none), or recompute first fills the context again from x, with the
// forward's bits. recompute is a call of the group, like forward and backward.
void release_saved(Context& context);
struct RecomputeArgs {
  Context* context = nullptr;
  const Bf16* x = nullptr;
  Weights weights;
};
[[nodiscard]] Result<CallReport> recompute(Workspace& workspace, const RecomputeArgs& args);

}  // namespace mok
