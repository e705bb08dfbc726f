// memory.cpp: the memory of a run, counted before anything is allocated.
#include "cli/memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

#include "core/carver.hpp"

namespace mok::cli {

namespace {

using U64 = std::uint64_t;

U64 product(std::initializer_list<std::int64_t> factors) {
  U64 result = 1;
  for (const std::int64_t factor : factors) {
    result = Carver::mul(result, static_cast<U64>(factor));
  }
  return result;
}

class Terms {
 public:
  void add(std::string name, U64 bytes) {
    need_.total_bytes = Carver::add(need_.total_bytes, bytes);
    need_.terms.push_back({std::move(name), bytes});
  }
  MemoryNeed take() { return std::move(need_); }

 private:
  MemoryNeed need_;
};

void add_machine(const Case& description, Terms& terms) {
  const int num_ranks = description.num_ranks();
  const Result<MemoryFormula> formula =
      memory_formula(description.shape, description.options, num_ranks);
  if (!formula) {
    // Either the sum does not fit 64 bits, or the library refuses the shape for another reason, which
    // library_rules() names.
    if (validate(description.shape, description.options, num_ranks).ok()) {
      terms.add("workspaces", Carver::kOverflow);
    }
    return;
  }
  const auto ranks = static_cast<U64>(num_ranks);
  const U64 contexts = Carver::mul(ranks, static_cast<U64>(description.layers));
  for (const MemoryTerm& term : formula->workspace) {
    terms.add("workspaces: " + term.name, Carver::mul(term.bytes, ranks));
  }
  for (const MemoryTerm& term : formula->context) {
    terms.add("contexts: " + term.name, Carver::mul(term.bytes, contexts));
  }
}

void add_tensors(const Case& description, CheckMode check, Terms& terms) {
  const LayerShape& shape = description.shape;
  const std::int64_t layers = description.layers;
  const std::int64_t num_ranks = description.num_ranks();
  const U64 steps = product({layers, description.microbatches});
  const U64 tokens = static_cast<U64>(description.total_tokens());
  const U64 states = Carver::mul(tokens, static_cast<U64>(shape.hidden));
  const U64 slots = Carver::mul(tokens, static_cast<U64>(shape.topk));
  const U64 experts = product({3, shape.experts, shape.intermediate, shape.hidden});
  const U64 shared = product({3, shape.shared_intermediate, shape.hidden});
  const std::int64_t grad_bytes = description.grad == Grad::kBf16 ? 2 : 4;
  terms.add("x, dy, y, dx", Carver::mul(Carver::mul(states, 8), steps));
  terms.add("ids, router weights, d_router", Carver::mul(Carver::mul(slots, 12), steps));
  terms.add("expert weights", Carver::mul(experts, product({2, layers})));
  terms.add("expert gradients", Carver::mul(experts, product({grad_bytes, layers})));
  terms.add("shared expert and its gradients",
            Carver::mul(shared, product({2 + 4 + 4 * num_ranks, layers})));
  if (check == CheckMode::kFull) {
    // A value and a bound in double for every element of the results.
    const U64 outputs =
        Carver::add(Carver::add(Carver::mul(states, 2), slots), Carver::add(experts, shared));
    terms.add("reference", Carver::mul(outputs, 16));
  }
}

// One size of a case, as a flag, and the case with that size at its least.
struct SizeFlag {
  const char* flag = nullptr;
  std::int64_t value = 0;
  std::int64_t least = 0;
  std::function<void(Case&)> shrink;
};

std::vector<SizeFlag> size_flags(const Case& description) {
  const LayerShape& shape = description.shape;
  const std::int64_t topk = std::max<std::int64_t>(shape.topk, 1);
  return {
      {"--tokens", shape.max_tokens, 1,
       [](Case& c) {
         std::fill(c.tokens.begin(), c.tokens.end(), 1);
         c.set_max_tokens();
       }},
      {"--hidden", shape.hidden, 8, [](Case& c) { c.shape.hidden = 8; }},
      {"--intermediate", shape.intermediate, 8, [](Case& c) { c.shape.intermediate = 8; }},
      {"--shared-intermediate", shape.shared_intermediate, 0,
       [](Case& c) {
         c.shape.shared_intermediate = 0;
         c.shape.output_gate = false;
       }},
      {"--experts", shape.experts, topk, [topk](Case& c) { c.shape.experts = topk; }},
      {"--topk", shape.topk, 1, [](Case& c) { c.shape.topk = 1; }},
      {"--ranks", description.num_ranks(), 1, [](Case& c) { c.tokens.resize(1); }},
      {"--layers", description.layers, 1, [](Case& c) { c.layers = 1; }},
      {"--microbatches", description.microbatches, 1, [](Case& c) { c.microbatches = 1; }},
      {"--ring-rows", description.options.ring_rows, smallest_ring_rows(),
       [](Case& c) {
         if (c.options.ring_rows != 0) {
           c.options.ring_rows = smallest_ring_rows();
         }
       }},
      {"--saved-rows", std::max<std::int64_t>(description.options.saved_rows, 0), 0,
       [](Case& c) {
         if (c.options.saved_rows > 0) {
           c.options.saved_rows = 0;
         }
       }},
  };
}

SizeFlag largest_size(const Case& description, CheckMode check) {
  SizeFlag largest;
  U64 least_total = Carver::kOverflow;
  double largest_ratio = 0.0;
  for (SizeFlag& size : size_flags(description)) {
    Case smaller = description;
    size.shrink(smaller);
    const U64 total = memory_need(smaller, check).total_bytes;
    const double ratio = static_cast<double>(size.value) /
                         static_cast<double>(std::max<std::int64_t>(size.least, 1));
    const bool saves_more = total < least_total || (total == least_total && ratio > largest_ratio);
    if (saves_more && size.value > size.least) {
      least_total = total;
      largest_ratio = ratio;
      largest = std::move(size);
    }
  }
  return largest;
}

}  // namespace

std::uint64_t machine_memory_bytes() {
  U64 bytes =
      static_cast<U64>(::sysconf(_SC_PHYS_PAGES)) * static_cast<U64>(::sysconf(_SC_PAGESIZE));
  // Version 2, then version 1 of control groups; "max" and absent files are no limit.
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    U64 limit = 0;
    if (std::ifstream(file) >> limit && limit > 0) {
      bytes = std::min(bytes, limit);
    }
  }
  return bytes;
}

MemoryNeed memory_need(const Case& description, CheckMode check) {
  Terms terms;
  add_machine(description, terms);
  add_tensors(description, check, terms);
  return terms.take();
}

Status check_memory(const Case& description, CheckMode check, std::uint64_t machine_bytes) {
  const MemoryNeed need = memory_need(description, check);
  if (need.total_bytes <= machine_bytes) {
    return {};
  }
  const MemoryTerm largest =
      *std::max_element(need.terms.begin(), need.terms.end(),
                        [](const MemoryTerm& a, const MemoryTerm& b) { return a.bytes < b.bytes; });
  const SizeFlag size = largest_size(description, check);
  const std::string needed = need.total_bytes == Carver::kOverflow
                                 ? "needs more bytes than 64 bits count"
                                 : "needs " + bytes_text(need.total_bytes);
  return Status::bad_argument(size.flag == nullptr ? "--tokens" : size.flag,
                              std::to_string(size.value),
                              "adds most to a run that " + needed + " (most of it " + largest.name +
                                  "); this machine has " + bytes_text(machine_bytes));
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace mok::cli
