// spike_report.hpp: the spike's results as a table, a total and a JSON object.
#pragma once

#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace mok::gpu_test {

struct SpikeResult {
  std::string name;  // case
  std::uint32_t num_ranks = 1;
  std::string kind;
  std::string ways;
  std::uint64_t compute_tickets = 0;  // of all ranks
  std::uint64_t comm_tickets = 0;
  std::string problem;           // empty: every task visited once, words as expected
  double decode_ns = 0;          // a ticket: claim and decode; 0: not measured
  double decode_waits_ns = 0;    // with its list of waits
  double decode_signals_ns = 0;  // with its lists of waits and signals
  double whole_ns = 0;           // kernel time over compute tickets a CTA
  double kernel_ms = 0;          // median
};

struct Check {
  std::string name;
  std::string problem;  // empty: passed
  std::string note;
};

class SpikeReport {
 public:
  static void print_header() {
    std::printf("%-21s %2s %-8s %-17s %8s %7s %-5s %7s %7s %7s %7s %9s\n", "case", "R", "call",
                "ways", "compute", "comm", "once", "decode", "+waits", "+sign.", "whole",
                "kernel ms");
  }
  void add(SpikeResult result) {
    std::printf("%-21s %2u %-8s %-17s %8llu %7llu %-5s %7.0f %7.0f %7.0f %7.0f %9.3f%s%s\n",
                result.name.c_str(), result.num_ranks, result.kind.c_str(), result.ways.c_str(),
                static_cast<unsigned long long>(result.compute_tickets),
                static_cast<unsigned long long>(result.comm_tickets),
                result.problem.empty() ? "yes" : "NO", result.decode_ns, result.decode_waits_ns,
                result.decode_signals_ns, result.whole_ns, result.kernel_ms,
                result.problem.empty() ? "" : "  ", result.problem.c_str());
    std::fflush(stdout);
    count(result.problem);
    results_.push_back(std::move(result));
  }
  void add(Check check) {
    std::printf("%-58s %s  %s\n", check.name.c_str(), check.problem.empty() ? "pass" : "FAIL",
                check.problem.empty() ? check.note.c_str() : check.problem.c_str());
    std::fflush(stdout);
    count(check.problem);
    checks_.push_back(std::move(check));
  }
  void print_total() const { std::printf("%d passed, %d failed\n", passed_, failed_); }
  [[nodiscard]] bool ok() const { return failed_ == 0 && passed_ > 0; }

  // `fields`: members that say where and on what this ran.
  [[nodiscard]] std::string json(const std::string& fields) const {
    std::ostringstream text;
    text << "{\"ok\":" << (ok() ? "true" : "false") << "," << fields << ",\"cases\":[";
    const char* comma = "\n";
    for (const SpikeResult& r : results_) {
      text << comma << "{\"case\":\"" << r.name << "\",\"ranks\":" << r.num_ranks << ",\"call\":\""
           << r.kind << "\",\"ways\":\"" << r.ways << "\",\"compute_tickets\":" << r.compute_tickets
           << ",\"comm_tickets\":" << r.comm_tickets
           << ",\"visited_once\":" << (r.problem.empty() ? "true" : "false") << ",\"problem\":\""
           << r.problem << "\",\"decode_ns\":" << r.decode_ns
           << ",\"decode_waits_ns\":" << r.decode_waits_ns
           << ",\"decode_signals_ns\":" << r.decode_signals_ns << ",\"whole_ns\":" << r.whole_ns
           << ",\"kernel_ms\":" << r.kernel_ms << "}";
      comma = ",\n";
    }
    text << "\n],\"checks\":[";
    comma = "\n";
    for (const Check& check : checks_) {
      text << comma << "{\"check\":\"" << check.name
           << "\",\"pass\":" << (check.problem.empty() ? "true" : "false") << ",\"problem\":\""
           << check.problem << "\",\"note\":\"" << check.note << "\"}";
      comma = ",\n";
    }
    text << "\n],\"passed\":" << passed_ << ",\"failed\":" << failed_ << "}\n";
    return text.str();
  }

 private:
  void count(const std::string& problem) { (problem.empty() ? passed_ : failed_) += 1; }

  std::vector<SpikeResult> results_;
  std::vector<Check> checks_;
  int passed_ = 0;
  int failed_ = 0;
};

}  // namespace mok::gpu_test
