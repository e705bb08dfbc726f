// doctor.cpp: `mok doctor`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/diagnosis.hpp"
#include "cli/report.hpp"
#include "cli/version.hpp"

namespace mok::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string findings_text(const std::vector<Finding>& findings, bool runs) {
  std::string text = fmt::format("MoK {} on this machine\n", version());
  for (const Finding& finding : findings) {
    text += fmt::format("{:<12} {:<8} {}\n", finding.item, name(finding.verdict), finding.found);
    if (!finding.advice.empty()) {
      text += fmt::format("{:<12} {:<8} -> {}\n", "", "", finding.advice);
    }
  }
  return text +
         (runs ? "the CPU machine runs here: mok run\n" : "the CPU machine does not run here\n");
}

Json gpus_json(const CudaFacts& cuda) {
  Json list = Json::array();
  for (const GpuFacts& gpu : cuda.gpus) {
    list.push_back({{"name", gpu.name},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                    {"memory_bytes", gpu.memory_bytes},
                    {"peer_access", gpu.peer_access},
                    {"nvlinks", gpu.num_nvlinks ? Json(*gpu.num_nvlinks) : Json(nullptr)}});
  }
  return list;
}

std::string findings_json(const std::vector<Finding>& findings, const CpuFacts& cpu,
                          const CudaFacts& cuda, const NcclFacts& nccl) {
  Json json;
  json["ok"] = cpu_machine_runs(cpu);
  json["version"] = version();
  json["cpu"] = {{"model", cpu.model},
                 {"threads", cpu.num_threads},
                 {"features", cpu.features},
                 {"best_engine", cpu.best_engine}};
  json["memory"] = {{"bytes", cpu.memory_bytes}, {"free_bytes", cpu.free_bytes}};
  json["driver"] = {{"version", cuda.driver_version}, {"cuda_version", cuda.cuda_version}};
  json["gpus"] = gpus_json(cuda);
  json["nccl"] = {{"path", nccl.path}, {"version", nccl.version}};
  json["findings"] = Json::array();
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"item", finding.item},
                                {"verdict", name(finding.verdict)},
                                {"found", finding.found},
                                {"advice", finding.advice}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int doctor_command(const Flags& flags) {
  const Format format = flags.given("--json") ? Format::kJson : Format::kText;
  const CpuFacts cpu = read_cpu_facts();
  const CudaFacts cuda = read_cuda_facts();
  const NcclFacts nccl = read_nccl_facts();
  const std::vector<Finding> findings = diagnose(cpu, cuda, nccl);
  const bool runs = cpu_machine_runs(cpu);
  const Status printed =
      print_out(format == Format::kJson ? findings_json(findings, cpu, cuda, nccl)
                                        : findings_text(findings, runs));
  if (!printed.ok()) {
    return print_failure(printed, Format::kText);
  }
  return runs ? 0 : exit_status(Code::kEnvironment);
}

}  // namespace mok::cli
