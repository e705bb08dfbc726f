// expert.hpp: forward and backward of one expert on a list of rows, with errors.
//
// A team of threads runs the same task together. Rows are taken in chunks; within a chunk threads
// own groups of eight intermediate columns, then groups of eight hidden columns (Member::share), so
// sums need no locks and their order is fixed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/bf16.hpp"
#include "reference/error_model.hpp"
#include "reference/multiply.hpp"
#include "reference/reference.hpp"
#include "reference/team.hpp"

namespace mok::reference {

// A token at an expert: where its scale's gradient goes, and the scale (w, or s of the shared
// expert).
struct Row {
  std::int64_t token = 0;
  std::int64_t place = 0;  // index into TokenSums::d_scale
  Approx scale;
};

// A sum over the rows of each token, [T,H]: exact value, the terms' errors, and the terms' sizes
// (for the rounding of the fp32 sum itself).
struct RowSum {
  std::vector<double> value;
  std::vector<double> error;
  std::vector<double> magnitude;

  explicit RowSum(std::int64_t num_elements)
      : value(static_cast<std::size_t>(num_elements)),
        error(static_cast<std::size_t>(num_elements)),
        magnitude(static_cast<std::size_t>(num_elements)) {}

  void add(std::int64_t at, Approx term) {
    const auto i = static_cast<std::size_t>(at);
    value[i] += term.value;
    error[i] += term.error;
    magnitude[i] += std::abs(term.value) + term.error;
  }
};

// One weight gradient: element (column i, hidden h) lives at i * column_stride + h * hidden_stride.
struct GradientView {
  double* value = nullptr;
  double* error = nullptr;
  std::int64_t column_stride = 0;
  std::int64_t hidden_stride = 0;
};

struct ExpertTask {
  // Weights of this expert; `columns` lists the intermediate columns that are computed.
  const Bf16* gate = nullptr;  //                                                             [I,H]
  const Bf16* up = nullptr;    //                                                             [I,H]
  const Bf16* down = nullptr;  //                                                             [H,I]
  std::int64_t intermediate = 0;
  std::span<const std::int64_t> columns;
  std::span<const Row> rows;

  // Sums over tokens need all columns. Null pointers: not computed.
  RowSum* y = nullptr;
  RowSum* dx = nullptr;
  Approx* d_scale = nullptr;

  // Weight gradients, indexed by position in `columns`. num_more_additions: fp32 additions after
  // the segments (the ranks' arrays).
  struct Gradients {
    GradientView gate;
    GradientView up;
    GradientView down;
    std::int64_t num_more_additions = 0;
  };
  const Gradients* gradients = nullptr;
};

class ExpertEngine {
 public:
  // Buffers for tasks of up to `max_columns` columns and `max_rows` rows.
  ExpertEngine(const Problem& problem, std::int64_t max_columns, std::int64_t max_rows,
               int num_threads);

  // Called by every member of the team with an equal task. On return this member's part is done;
  // the outputs are whole after the team's next meeting.
  void run(const ExpertTask& task, const Member& member);

 private:
  // What a thread works in: right operands and results of eight columns.
  struct Workbench {
    std::vector<Lanes> right[3];
    std::vector<Lanes> result[3];
  };
  // Per row and column, [chunk rows, padded columns].
  struct ColumnArrays {
    std::vector<Operand> hidden;  // for y
    std::vector<Operand> d_gate_for_dx, d_up_for_dx;
    std::vector<Operand> d_gate, d_up, hidden_scaled;  // for the weight gradients
    std::vector<Operand> d_scale_term;                 // value, error
  };
  // Factors of this task's sums.
  struct Factors {
    double over_hidden = 0.0;
    double over_columns = 0.0;
    double over_two_columns = 0.0;
    double over_rows = 0.0;
    double d_scale = 0.0;
  };

  void load_rows(const ExpertTask& task, std::int64_t first, std::int64_t count,
                 const Factors& factors, const Member& member);
  void columns_group(const ExpertTask& task, std::span<const Row> rows, std::int64_t first_column,
                     const Factors& factors, Workbench& bench);
  void one_element(const Row& row, std::int64_t at, Approx gate, Approx up, Approx d_hidden,
                   const Factors& factors);
  void token_group(const ExpertTask& task, std::span<const Row> rows, std::int64_t first_hidden,
                   const Factors& factors, Workbench& bench);
  void gradient_group(const ExpertTask& task, std::span<const Row> rows, std::int64_t first_hidden,
                      const Factors& factors, Workbench& bench);
  void scale_gradient(const ExpertTask& task, const Row& row, std::int64_t row_in_chunk);

  const Problem& problem_;
  ErrorModel model_;
  std::int64_t padded_columns_ = 0;
  std::vector<Operand> x_, dy_;  // [chunk rows, H]
  ColumnArrays arrays_;
  std::vector<Workbench> benches_;
};

}  // namespace mok::reference
