// engine_bench.cpp: rate of the CPU engines on MoE tiles, one thread, beside oneDNN's bf16 matmul.
//
// One iteration computes eight tiles of 128 x 256 that share their rows of a, tile by tile, as a
// worker does; packing is part of the time. oneDNN gets the same calls on the same memory, plain
// strided layouts, with its primitives made beforehand. After the runs a table gives the ratios.
// Built without MOK_WITH_ONEDNN, only the engines are measured.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu/engine/engine.hpp"

#if MOK_WITH_ONEDNN
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace {

using mok::Bf16;
using mok::cpu::Major;
using mok::cpu::Operand;

constexpr int kTileRows = mok::cpu::kMaxTileRows;
constexpr int kTileCols = mok::cpu::kMaxTileCols;
constexpr int kNumTiles = 8;
constexpr int kTotalCols = kTileCols * kNumTiles;
constexpr std::int64_t kWideStride = 2048;  // of an operand whose rows are contiguous
constexpr std::uint32_t kSeed = 20240607;

struct Shape {
  std::int64_t k;
  Major a;
  Major b;
};

std::string shape_name(const Shape& shape) {
  const auto letter = [](Major major) { return major == Major::kK ? "k" : "mn"; };
  return "a:" + std::string{letter(shape.a)} + "/b:" + letter(shape.b) +
         "/k:" + std::to_string(shape.k);
}

class Problem {
 public:
  explicit Problem(const Shape& shape)
      : shape_(shape),
        a_(fill(shape.a == Major::kK ? kTileRows * shape.k : shape.k * kWideStride, 1)),
        b_(fill(kTotalCols * shape.k, 2)),
        acc_(static_cast<std::size_t>(kTileRows * kTotalCols)) {}

  [[nodiscard]] Operand a() const {
    return {a_.data(), shape_.a == Major::kK ? shape_.k : kWideStride, shape_.a};
  }
  [[nodiscard]] Operand b(int tile) const {
    const std::int64_t col = static_cast<std::int64_t>(tile) * kTileCols;
    return shape_.b == Major::kK ? Operand{b_.data() + col * shape_.k, shape_.k, Major::kK}
                                 : Operand{b_.data() + col, kTotalCols, Major::kMn};
  }
  [[nodiscard]] float* acc(int tile) {
    return acc_.data() + static_cast<std::int64_t>(tile) * kTileCols;
  }
  [[nodiscard]] const Shape& shape() const { return shape_; }

  [[nodiscard]] double flops() const {
    return 2.0 * kTileRows * kTotalCols * static_cast<double>(shape_.k);
  }

 private:
  static std::vector<Bf16> fill(std::int64_t count, std::uint32_t stream) {
    std::mt19937 random(kSeed + stream);
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    std::vector<Bf16> data(static_cast<std::size_t>(count));
    for (Bf16& value : data) {
      value = mok::to_bf16(values(random));
    }
    return data;
  }

  Shape shape_;
  std::vector<Bf16> a_;
  std::vector<Bf16> b_;
  std::vector<float> acc_;
};

void count_flops(benchmark::State& state, const Problem& problem) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(problem.flops() * 1e-9 * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void bench_engine(benchmark::State& state, const mok::cpu::Engine* engine, const Shape& shape) {
  Problem problem(shape);
  const auto scratch = std::make_unique<mok::cpu::Scratch>();
  for (auto _ : state) {
    for (int tile = 0; tile < kNumTiles; ++tile) {
      engine->gemm({.a = problem.a(),
                    .b = problem.b(tile),
                    .m = kTileRows,
                    .n = kTileCols,
                    .k = shape.k,
                    .acc = problem.acc(tile),
                    .acc_stride = kTotalCols},
                   *scratch);
    }
    benchmark::ClobberMemory();
  }
  count_flops(state, problem);
}

#if MOK_WITH_ONEDNN
void bench_onednn(benchmark::State& state, const Shape& shape) {
  using dnnl::memory;
  omp_set_num_threads(1);
  Problem problem(shape);
  const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(cpu);
  const auto strides = [](const Operand& operand, bool rows_first) {
    const memory::dim row = operand.major == Major::kK ? operand.stride : 1;
    const memory::dim k = operand.major == Major::kK ? 1 : operand.stride;
    return rows_first ? memory::dims{row, k} : memory::dims{k, row};
  };
  const memory::desc a_desc({kTileRows, shape.k}, memory::data_type::bf16,
                            strides(problem.a(), true));
  const memory::desc b_desc({shape.k, kTileCols}, memory::data_type::bf16,
                            strides(problem.b(0), false));
  const memory::desc acc_desc({kTileRows, kTileCols}, memory::data_type::f32,
                              memory::dims{kTotalCols, 1});
  const dnnl::matmul matmul(dnnl::matmul::primitive_desc({a_desc, b_desc, acc_desc}, cpu));
  std::vector<std::unordered_map<int, memory>> arguments;
  for (int tile = 0; tile < kNumTiles; ++tile) {
    const auto handle = [](const Operand& operand) { return const_cast<Bf16*>(operand.data); };
    arguments.push_back({{DNNL_ARG_SRC, memory(a_desc, cpu, handle(problem.a()))},
                         {DNNL_ARG_WEIGHTS, memory(b_desc, cpu, handle(problem.b(tile)))},
                         {DNNL_ARG_DST, memory(acc_desc, cpu, problem.acc(tile))}});
  }
  for (auto _ : state) {
    for (const auto& tile : arguments) {
      matmul.execute(stream, tile);
    }
    stream.wait();
    benchmark::ClobberMemory();
  }
  count_flops(state, problem);
}
#endif

// Prints as usual, and keeps the median rates for the table of ratios.
class RatioReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto rate = run.counters.find("GFLOP/s");
      if (rate == run.counters.end()) {
        continue;
      }
      const bool is_median = run.run_type == Run::RT_Aggregate && run.aggregate_name == "median";
      if (is_median || (run.run_type == Run::RT_Iteration && run.repetitions <= 1)) {
        rates_[run.run_name.function_name] = rate->second.value;
      }
    }
  }

  void print_ratios(const std::vector<Shape>& shapes) const {
    std::printf("\n%-22s %14s %14s %8s\n", "128x256 tiles", "avx512_bf16", "onednn", "ratio");
    for (const Shape& shape : shapes) {
      const std::string name = shape_name(shape);
      const auto ours = rates_.find("avx512_bf16/" + name);
      const auto theirs = rates_.find("onednn/" + name);
      if (ours != rates_.end() && theirs != rates_.end()) {
        std::printf("%-22s %14.1f %14.1f %8.2f\n", name.c_str(), ours->second, theirs->second,
                    ours->second / theirs->second);
      }
    }
  }

 private:
  std::map<std::string, double> rates_;
};

std::vector<Shape> list_shapes() {
  std::vector<Shape> shapes;
  for (const std::int64_t k : {512, 1024, 2048}) {
    for (const Major a : {Major::kK, Major::kMn}) {
      for (const Major b : {Major::kK, Major::kMn}) {
        shapes.push_back({k, a, b});
      }
    }
  }
  return shapes;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  const std::vector<Shape> shapes = list_shapes();
  for (const Shape& shape : shapes) {
    for (const char* name : {"scalar", "avx2", "avx512_bf16"}) {
      const auto engine = mok::cpu::find_engine(name);
      if (engine.has_value()) {
        const std::string title = std::string{name} + "/" + shape_name(shape);
        benchmark::RegisterBenchmark(title.c_str(), bench_engine, *engine, shape);
      }
    }
#if MOK_WITH_ONEDNN
    const std::string title = "onednn/" + shape_name(shape);
    benchmark::RegisterBenchmark(title.c_str(), bench_onednn, shape);
#endif
  }
  RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.print_ratios(shapes);
  return 0;
}
