// layer_rig.hpp: R ranks of a layer in threads of this process, their memory full of NaN before
// each call.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "layer/impl.hpp"
#include "support/layer_data.hpp"

namespace mok::testing {

// Calls f(rank) in a thread of its own for each rank and waits for all.
void on_ranks(int num_ranks, const std::function<void(int)>& f);

// Sanitizers make everything slow: the random tests draw fewer cases then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

using Reports = std::vector<Result<CallReport>>;  // per rank

class LayerRig {
 public:
  explicit LayerRig(const LayerSpec& spec);
  // Workspaces in a group that exists already.
  LayerRig(const LayerSpec& spec, std::vector<World> worlds);

  [[nodiscard]] int num_ranks() const { return spec_.num_ranks(); }
  [[nodiscard]] const std::vector<World>& worlds() const { return worlds_; }
  [[nodiscard]] Workspace& workspace(int rank) {
    return workspaces_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::vector<Context> contexts() const;

  // Fills all that a call may not read before it has written it: rings, landing, rows, scratch,
  // counters; all but the flags and host words. No call may be running.
  void poison();
  static void poison(std::vector<Context>& contexts);

  // One call on every rank; memory is poisoned first. contexts nullptr: inference.
  Reports forward(const LayerData& data, LayerResult& result, std::vector<Context>* contexts);
  Reports backward(const LayerData& data, LayerResult& result,
                   const std::vector<Context>& contexts);
  Reports recompute(const LayerData& data, std::vector<Context>& contexts);

 private:
  LayerSpec spec_;
  std::vector<World> worlds_;
  std::vector<Workspace> workspaces_;
};

// The arguments of one rank.
[[nodiscard]] ForwardArgs forward_args(const LayerData& data, LayerResult& result, int rank,
                                       Context* context);
[[nodiscard]] BackwardArgs backward_args(const LayerData& data, LayerResult& result, int rank,
                                         const Context* context);

// "" when every rank succeeded.
[[nodiscard]] std::string failures(const Reports& reports);

// New workspaces, one forward and one backward; failures are test failures.
[[nodiscard]] LayerResult run_layer(const LayerData& data);
// The same on workspaces that exist; data may have other tokens than the rig's spec.
[[nodiscard]] LayerResult run_layer(LayerRig& rig, const LayerData& data);

}  // namespace mok::testing
