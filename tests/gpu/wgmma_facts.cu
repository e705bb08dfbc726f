// wgmma_facts.cu: what MoK's bit promises take for granted about Hopper's matrix instruction and no
// document says. A program of its own: `wgmma_facts [--seed N] [--json FILE]`.
//
// 64 x 256 outputs, K = 8192. Each fact compares bits with the product by m64n256k16 on K-major
// operands, or values with a double reference on the CPU; a control shows that bits do move when
// the order of the sum does. Outputs are NaN before every run.
// Exit status: 0 all hold, 1 one does not (or CUDA failed), 2 no GPU of 9.0, or bad arguments.
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_check.cuh"
#include "wgmma_facts_data.hpp"
#include "wgmma_facts_kernel.cuh"
#include "wgmma_facts_report.hpp"

namespace mok::gpu_test {
namespace {

constexpr std::chrono::milliseconds kDeadline{10'000};
constexpr std::array<int, 3> kWidths = {64, 128, 256};
constexpr std::size_t kElements = static_cast<std::size_t>(kRows) * kColumns;
constexpr int kNumSteps = kK / kStepK;

using Output = std::vector<float>;

enum class Method : std::uint8_t { kOnePass, kReloadEveryStage, kZeroedC };

struct Run {
  int n = 256;
  Major major_a = Major::kK;
  Major major_b = Major::kK;
  Method method = Method::kOnePass;
};

template <int kN, Major kMajorA, Major kMajorB, Start kStart>
void launch(const ProductArguments& arguments) {
  product_kernel<kN, kMajorA, kMajorB, kStart><<<kColumns / kN, kThreads>>>(arguments);
  check(cudaGetLastError(), "launch of product_kernel");
}

template <int kN>
void launch_width(const Run& run, Start start, const ProductArguments& arguments) {
  const bool a_by_k = run.major_a == Major::kK;
  const bool b_by_k = run.major_b == Major::kK;
  if (start == Start::kLoadC) {
    if (!a_by_k || !b_by_k) {
      stop("continuing from C is built for K-major operands only", 1);
    }
    launch<kN, Major::kK, Major::kK, Start::kLoadC>(arguments);
  } else if (a_by_k && b_by_k) {
    launch<kN, Major::kK, Major::kK, Start::kScaleDZero>(arguments);
  } else if (a_by_k) {
    launch<kN, Major::kK, Major::kMn, Start::kScaleDZero>(arguments);
  } else if (b_by_k) {
    launch<kN, Major::kMn, Major::kK, Start::kScaleDZero>(arguments);
  } else {
    launch<kN, Major::kMn, Major::kMn, Start::kScaleDZero>(arguments);
  }
}

void launch_product(const Run& run, Start start, const ProductArguments& arguments) {
  switch (run.n) {
    case 64: launch_width<64>(run, start, arguments); break;
    case 128: launch_width<128>(run, start, arguments); break;
    case 256: launch_width<256>(run, start, arguments); break;
    default: stop("no instance for this N", 1);
  }
}

// Device memory for one product, reused by all of them.
class Multiplier {
 public:
  Output multiply(const Matrix& a, const Matrix& b, const Run& run) {
    a_.upload(a.data());
    b_.upload(b.data());
    c_.fill_bytes(run.method == Method::kZeroedC ? 0 : 0xff);  // 0xffffffff is a NaN
    ProductArguments arguments{a_.get(), b_.get(), c_.get(), 0, kK};
    if (run.method == Method::kReloadEveryStage) {
      for (int k = 0; k < kK; k += kStageK) {
        arguments.k_begin = k;
        arguments.k_end = k + kStageK;
        launch_product(run, k == 0 ? Start::kScaleDZero : Start::kLoadC, arguments);
      }
    } else {
      const bool from_c = run.method == Method::kZeroedC;
      launch_product(run, from_c ? Start::kLoadC : Start::kScaleDZero, arguments);
    }
    wait_for_gpu("product_kernel", kDeadline);
    Output output(kElements);
    c_.download(output.data());
    return output;
  }

 private:
  DeviceArray<Bf16> a_{static_cast<std::size_t>(kRows) * kK};
  DeviceArray<Bf16> b_{static_cast<std::size_t>(kColumns) * kK};
  DeviceArray<float> c_{kElements};
};

// NaN counts as differing: it would mean an element that nobody wrote.
bool same_bits(float left, float right) {
  return !std::isnan(left) && !std::isnan(right) &&
         std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
}

std::size_t count_differing(const Output& left, const Output& right) {
  std::size_t differing = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    differing += same_bits(left[i], right[i]) ? 0U : 1U;
  }
  return differing;
}

std::string factors(const char* what, double mean, double max) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%s mean %.3f max %.3f", what, mean, max);
  return text.data();
}

// The facts on one data set.
class FactCheck {
 public:
  FactCheck(Multiplier& multiplier, Report& report, DataSet data, std::uint64_t seed)
      : multiplier_(multiplier),
        report_(report),
        name_(name_of(data)),
        random_(seed * 4 + static_cast<std::uint64_t>(data)),
        a_(random_matrix(data, kRows, kK, random_)),
        b_(random_matrix(data, kColumns, kK, random_)),
        exact_(reference_product(a_, b_, kK)) {
    for (std::size_t i = 0; i < kWidths.size(); ++i) {
      base_[i] = multiplier_.multiply(a_, b_, {.n = kWidths[i]});
    }
  }

  void check_width() {
    const std::size_t differing =
        count_differing(base_[0], wide_base()) + count_differing(base_[1], wide_base());
    report_.add_equality("N 64 and 128 equal N 256", name_, 2 * kElements, differing);
  }

  void check_row_position() {
    const std::vector<int> order = random_permutation(kRows, random_);
    const Matrix moved = permuted_rows(a_, order);
    std::size_t differing = 0;
    for (const int n : kWidths) {
      const Output output = multiplier_.multiply(moved, b_, {.n = n});
      for (std::size_t i = 0; i < kElements; ++i) {
        const auto row = static_cast<std::size_t>(order[i / kColumns]);
        differing += same_bits(output[i], wide_base()[row * kColumns + i % kColumns]) ? 0U : 1U;
      }
    }
    report_.add_equality("rows of A permuted", name_, kWidths.size() * kElements, differing);
  }

  void check_column_position() {
    const std::vector<int> order = random_permutation(kColumns, random_);
    const Matrix moved = permuted_rows(b_, order);
    std::size_t differing = 0;
    for (const int n : kWidths) {
      const Output output = multiplier_.multiply(a_, moved, {.n = n});
      for (std::size_t i = 0; i < kElements; ++i) {
        const auto column = static_cast<std::size_t>(order[i % kColumns]);
        differing += same_bits(output[i], wide_base()[i / kColumns * kColumns + column]) ? 0U : 1U;
      }
    }
    report_.add_equality("rows of B permuted", name_, kWidths.size() * kElements, differing);
  }

  // The same product at every N, done in another way.
  void check_variant(const char* fact, Run run) {
    std::size_t differing = 0;
    for (const int n : kWidths) {
      run.n = n;
      differing += count_differing(multiplier_.multiply(a_, b_, run), wide_base());
    }
    report_.add_equality(fact, name_, kWidths.size() * kElements, differing);
  }

  void check_variants() {
    check_variant("A MN-major", {.major_a = Major::kMn});
    check_variant("B MN-major", {.major_b = Major::kMn});
    check_variant("A and B MN-major", {.major_a = Major::kMn, .major_b = Major::kMn});
    check_variant("C stored and reloaded every 4 k16 steps", {.method = Method::kReloadEveryStage});
    check_variant("scale-d 0 equals zeroed accumulators", {.method = Method::kZeroedC});
    check_variant("run again", {});
  }

  void check_bound() {
    std::size_t outside = 0;
    for (const Output& output : base_) {
      outside += summarise_errors(output, exact_, kNumSteps).outside_bound;
    }
    const ErrorSummary errors = summarise_errors(wide_base(), exact_, kNumSteps);
    report_.add({"within (K/16) 2^-23 sum|a||b| of double", name_, base_.size() * kElements,
                 outside, outside == 0,
                 factors("|err| factor", errors.mean_factor, errors.max_factor)});
  }

  // All terms are positive: truncation can only lose, and the loss must be visible. Rounding to
  // nearest would give about as many results above as below.
  void check_truncation() {
    const ErrorSummary errors = summarise_errors(wide_base(), exact_, kNumSteps);
    report_.add_equality("truncation: no result above the exact one", name_, kElements,
                         errors.above_exact);
    constexpr double kLeastMean = 0.25;
    constexpr double kBound = 2;
    report_.add(
        {"truncation: loss a k16 step, in 2^-24 of sum", name_, kElements, errors.outside_bound,
         errors.mean_low_factor > kLeastMean && errors.max_factor <= kBound,
         factors("whole sum", errors.mean_low_factor, errors.max_factor) + ", " +
             factors("running sum", errors.mean_running_factor, errors.max_running_factor)});
  }

  // Control: shows that the comparisons can see a change of order.
  void check_order_matters() {
    const Output output = multiplier_.multiply(reversed_k_groups(a_, kK, kStepK),
                                               reversed_k_groups(b_, kK, kStepK), {});
    const std::size_t differing = count_differing(output, wide_base());
    report_.add({"control: k16 steps reversed must differ",
                 name_,
                 kElements,
                 differing,
                 differing > kElements / 2,
                 {}});
  }

  // Control: integers add without rounding, so every layout must give the exact sum.
  void check_exact() {
    std::size_t compared = 0;
    std::size_t differing = 0;
    for (const int n : kWidths) {
      for (const Major major_a : {Major::kK, Major::kMn}) {
        for (const Major major_b : {Major::kK, Major::kMn}) {
          const Output output =
              multiplier_.multiply(a_, b_, {.n = n, .major_a = major_a, .major_b = major_b});
          for (std::size_t i = 0; i < kElements; ++i) {
            differing += static_cast<double>(output[i]) == exact_[i].value ? 0U : 1U;
          }
          compared += kElements;
        }
      }
    }
    report_.add_equality("small integers equal the exact sum", name_, compared, differing);
  }

 private:
  [[nodiscard]] const Output& wide_base() const { return base_.back(); }  // N = 256

  Multiplier& multiplier_;
  Report& report_;
  std::string_view name_;
  std::mt19937_64 random_;
  Matrix a_;
  Matrix b_;
  std::vector<Element> exact_;
  std::array<Output, kWidths.size()> base_;
};

void check_register_split(Report& report) {
  constexpr const char* kFact = "registers 40 / 232 / 232 by setmaxnreg";
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, register_split_kernel), "cudaFuncGetAttributes");
  if (attributes.numRegs * kSplitThreads < kSplitPool) {  // the increase would wait for ever
    report.add({kFact, "-", 0, 0, false,
                "launched with " + std::to_string(attributes.numRegs) + " a thread: too few"});
    return;
  }
  DeviceArray<std::uint32_t> words(kSplitThreads);
  DeviceArray<std::uint64_t> times(2);
  words.fill_bytes(0xff);
  times.fill_bytes(0);
  register_split_kernel<<<1, kSplitThreads>>>(words.get(), times.get());
  check(cudaGetLastError(), "launch of register_split_kernel");
  wait_for_gpu("register_split_kernel", kDeadline);
  std::array<std::uint32_t, kSplitThreads> seen{};
  std::array<std::uint64_t, 2> seen_ns{};
  words.download(seen.data());
  times.download(seen_ns.data());
  std::size_t differing = 0;
  for (std::uint32_t thread = 0; thread < kSplitThreads; ++thread) {
    differing += seen[thread] == split_word(thread) ? 0U : 1U;
  }
  const bool clock_moves = seen_ns[0] > 0 && seen_ns[1] > seen_ns[0];
  report.add({kFact, "-", kSplitThreads, differing, differing == 0 && clock_moves,
              "globaltimer step " + std::to_string(seen_ns[1] - seen_ns[0]) + " ns"});
}

// Opening members of the JSON object.
std::string fields_of(const Machine& machine, std::uint64_t seed) {
  std::ostringstream text;
  text << "\"gpu\":\"" << machine.gpu << "\",\"driver\":\"" << machine.driver
       << "\",\"cuda_driver\":" << machine.cuda_driver
       << ",\"cuda_runtime\":" << machine.cuda_runtime << ",\"seed\":" << seed
       << ",\"rows\":" << kRows << ",\"columns\":" << kColumns << ",\"k\":" << kK;
  return text.str();
}

struct Arguments {
  std::uint64_t seed = 0;
  std::string json_path;
};

Arguments parse_arguments(int count, char** values) {
  Arguments arguments{.seed = std::random_device{}(), .json_path = {}};
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name != "--seed" && name != "--json") {
      stop(std::string(name) + ": unknown argument, legal are --seed N and --json FILE", 2);
    }
    if (i + 1 == count) {
      stop(std::string(name) + ": needs a value", 2);
    }
    const std::string_view value = values[++i];
    if (name == "--json") {
      arguments.json_path = value;
      continue;
    }
    const char* const end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, arguments.seed);
    if (parsed.ec != std::errc{} || parsed.ptr != end) {
      stop("--seed = " + std::string(value) + ": must be an unsigned 64-bit number", 2);
    }
  }
  return arguments;
}

int main_checked(int count, char** values) {
  const Arguments arguments = parse_arguments(count, values);
  const Machine machine = require_hopper();
  std::printf("%s, driver %s, CUDA driver %d, runtime %d, seed %llu\n", machine.gpu.c_str(),
              machine.driver.c_str(), machine.cuda_driver, machine.cuda_runtime,
              static_cast<unsigned long long>(arguments.seed));
  std::printf(
      "64 x 256 outputs, K = %d; bits are compared with N 256, K-major; factors in 2^-24 a "
      "k16 step\n",
      kK);
  Report report;
  report.print_header();
  Multiplier multiplier;
  FactCheck(multiplier, report, DataSet::kIntegers, arguments.seed).check_exact();
  for (const DataSet data : {DataSet::kNormal, DataSet::kPositive, DataSet::kWide}) {
    FactCheck facts(multiplier, report, data, arguments.seed);
    facts.check_bound();
    facts.check_width();
    facts.check_row_position();
    facts.check_column_position();
    facts.check_variants();
    if (data == DataSet::kPositive) {
      facts.check_truncation();
    }
    facts.check_order_matters();
  }
  check_register_split(report);
  if (!arguments.json_path.empty()) {
    std::ofstream file(arguments.json_path);
    file << report.json(fields_of(machine, arguments.seed));
    file.close();
    if (!file) {
      stop("--json = " + arguments.json_path + ": cannot be written", 2);
    }
  }
  report.print_total();
  return report.ok() ? 0 : 1;
}

}  // namespace
}  // namespace mok::gpu_test

int main(int count, char** values) {
  return mok::gpu_test::main_checked(count, values);
}
