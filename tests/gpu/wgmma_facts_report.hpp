// wgmma_facts_report.hpp: the findings of wgmma_facts as a table, a total and a JSON object.
#pragma once

#include <cstddef>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mok::gpu_test {

// One line of the table.
struct Finding {
  std::string fact;
  std::string_view data;
  std::size_t compared = 0;
  std::size_t differing = 0;
  bool holds = false;
  std::string note;
};

class Report {
 public:
  void add(Finding finding) {
    std::printf("%-44s %-9s %9zu %9zu  %s%s%s\n", finding.fact.c_str(), finding.data.data(),
                finding.compared, finding.differing, finding.holds ? "pass" : "FAIL",
                finding.note.empty() ? "" : "  ", finding.note.c_str());
    std::fflush(stdout);
    (finding.holds ? passed_ : failed_) += 1;
    findings_.push_back(std::move(finding));
  }
  // A fact that holds when nothing differs.
  void add_equality(std::string fact, std::string_view data, std::size_t compared,
                    std::size_t differing) {
    add({std::move(fact), data, compared, differing, compared > 0 && differing == 0, {}});
  }
  void print_header() const {
    std::printf("%-44s %-9s %9s %9s  verdict\n", "fact", "data", "compared", "differing");
  }
  void print_total() const { std::printf("%d passed, %d failed\n", passed_, failed_); }
  [[nodiscard]] bool ok() const { return failed_ == 0 && passed_ > 0; }

  // `fields`: members that say where and on what this ran.
  [[nodiscard]] std::string json(const std::string& fields) const {
    std::ostringstream text;
    text << "{\"ok\":" << (ok() ? "true" : "false") << "," << fields << ",\"facts\":[";
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      const Finding& finding = findings_[i];
      text << (i == 0 ? "\n" : ",\n") << "{\"fact\":\"" << finding.fact << "\",\"data\":\""
           << finding.data << "\",\"compared\":" << finding.compared
           << ",\"differing\":" << finding.differing
           << ",\"pass\":" << (finding.holds ? "true" : "false") << ",\"note\":\"" << finding.note
           << "\"}";
    }
    text << "\n],\"passed\":" << passed_ << ",\"failed\":" << failed_ << "}\n";
    return text.str();
  }

 private:
  std::vector<Finding> findings_;
  int passed_ = 0;
  int failed_ = 0;
};

}  // namespace mok::gpu_test
