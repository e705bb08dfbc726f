// diagnosis_test.cpp: facts of made-up machines into verdicts.
#include "cli/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mok::cli {
namespace {

CpuFacts good_cpu() {
  return {.model = "A CPU",
          .num_threads = 8,
          .features = {"avx2"},
          .best_engine = "avx512_bf16",
          .memory_bytes = std::uint64_t{16} << 30,
          .free_bytes = std::uint64_t{8} << 30};
}

CudaFacts good_cuda(std::size_t num_gpus) {
  CudaFacts cuda;
  cuda.has_driver = true;
  cuda.has_nvml = true;
  cuda.driver_version = "580.65.06";
  cuda.driver_major = 580;
  cuda.cuda_version = 13000;
  for (std::size_t i = 0; i < num_gpus; ++i) {
    cuda.gpus.push_back({.name = "A GPU",
                         .major = 9,
                         .minor = 0,
                         .memory_bytes = std::uint64_t{140} << 30,
                         .peer_access = std::vector<bool>(num_gpus, true),
                         .num_nvlinks = 18});
  }
  return cuda;
}

Finding find(const CpuFacts& cpu, const CudaFacts& cuda, const NcclFacts& nccl, const char* item) {
  const std::vector<Finding> findings = diagnose(cpu, cuda, nccl);
  const auto place = std::find_if(findings.begin(), findings.end(),
                                  [item](const Finding& each) { return each.item == item; });
  EXPECT_NE(place, findings.end()) << item;
  return place == findings.end() ? Finding{} : *place;
}

const NcclFacts kGoodNccl{"/somewhere/libnccl.so.2", 22809};

TEST(Diagnosis, AGoodMachineIsOk) {
  for (const Finding& finding : diagnose(good_cpu(), good_cuda(4), kGoodNccl)) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.item << ": " << finding.found;
    EXPECT_TRUE(finding.advice.empty()) << finding.advice;
  }
}

TEST(Diagnosis, WithoutGpusTheCpuMachineStillRuns) {
  EXPECT_TRUE(cpu_machine_runs(good_cpu()));
  for (const char* item : {"driver", "gpus", "peer_access", "nvlink", "nccl"}) {
    const Finding finding = find(good_cpu(), {}, {}, item);
    EXPECT_EQ(finding.verdict, Verdict::kMissing) << item;
    EXPECT_FALSE(finding.advice.empty()) << item;
  }
}

TEST(Diagnosis, NamesWhatIsTooOld) {
  CudaFacts cuda = good_cuda(1);
  cuda.driver_version = "570.10";
  cuda.driver_major = 570;
  EXPECT_EQ(find(good_cpu(), cuda, kGoodNccl, "driver").verdict, Verdict::kTooOld);
  EXPECT_NE(find(good_cpu(), cuda, kGoodNccl, "driver").advice.find("580"), std::string::npos);
  cuda = good_cuda(1);
  cuda.driver_major = 0;
  cuda.cuda_version = 12080;
  EXPECT_EQ(find(good_cpu(), cuda, kGoodNccl, "driver").verdict, Verdict::kTooOld);
  cuda = good_cuda(2);
  cuda.gpus[1].major = 8;
  EXPECT_EQ(find(good_cpu(), cuda, kGoodNccl, "gpus").verdict, Verdict::kTooOld);
  const Finding nccl = find(good_cpu(), good_cuda(1), {"/lib/libnccl.so.2", 21903}, "nccl");
  EXPECT_EQ(nccl.verdict, Verdict::kTooOld);
  EXPECT_NE(nccl.found.find("2.19.3"), std::string::npos) << nccl.found;
}

TEST(Diagnosis, PrintsThePeerMatrix) {
  CudaFacts cuda = good_cuda(2);
  cuda.gpus[0].peer_access = {true, false};
  const Finding finding = find(good_cpu(), cuda, kGoodNccl, "peer_access");
  EXPECT_EQ(finding.verdict, Verdict::kMissing);
  EXPECT_EQ(finding.found, "matrix 10 11");
}

TEST(Diagnosis, OneGpuNeedsNoLinkSeveralDo) {
  for (const std::size_t num_gpus : {1U, 2U}) {
    CudaFacts cuda = good_cuda(num_gpus);
    cuda.gpus[0].num_nvlinks = 0;
    EXPECT_EQ(find(good_cpu(), cuda, kGoodNccl, "nvlink").verdict,
              num_gpus == 1 ? Verdict::kOk : Verdict::kMissing);
  }
}

TEST(Diagnosis, ADriverThatDoesNotAnswerIsMissing) {
  CudaFacts cuda = good_cuda(0);
  cuda.problem = "cuInit failed: CUDA_ERROR_NO_DEVICE";
  const Finding finding = find(good_cpu(), cuda, kGoodNccl, "driver");
  EXPECT_EQ(finding.verdict, Verdict::kMissing);
  EXPECT_NE(finding.found.find("CUDA_ERROR_NO_DEVICE"), std::string::npos);
}

TEST(Diagnosis, TooLittleMemoryStopsTheCpuMachine) {
  CpuFacts cpu = good_cpu();
  cpu.memory_bytes = std::uint64_t{100} << 20;
  EXPECT_FALSE(cpu_machine_runs(cpu));
}

}  // namespace
}  // namespace mok::cli
