// layout.cpp: fills the layout; the names of the terms are those of docs/memory.md.
#include "core/layout.hpp"

#include <initializer_list>

namespace mok {

namespace {

constexpr std::uint64_t kBf16 = 2;
constexpr std::uint64_t kWord = 4;
constexpr std::uint64_t kLine = 64;

// Takes arrays and remembers their bytes under a name.
class NamedCarver {
 public:
  explicit NamedCarver(std::vector<LayoutTerm>& terms) : terms_(terms) {}

  std::uint64_t take(const char* name, std::initializer_list<std::uint64_t> dims,
                     std::uint64_t element_bytes) {
    std::uint64_t count = 1;
    for (const std::uint64_t dim : dims) {
      count = Carver::mul(count, dim);
    }
    const std::uint64_t before = carver_.bytes();
    const std::uint64_t offset = carver_.take(count, element_bytes);
    const std::uint64_t bytes = carver_.overflow() ? Carver::kOverflow : carver_.bytes() - before;
    if (!terms_.empty() && terms_.back().name == name) {
      terms_.back().bytes = Carver::add(terms_.back().bytes, bytes);
    } else {
      terms_.push_back(LayoutTerm{name, bytes});
    }
    return offset;
  }
  [[nodiscard]] std::uint64_t bytes() const { return carver_.bytes(); }

 private:
  std::vector<LayoutTerm>& terms_;
  Carver carver_;
};

ArenaLayout make_arena(const Sizes& s, const LayoutExtras& extras, std::vector<LayoutTerm>& terms) {
  NamedCarver c(terms);
  ArenaLayout a;
  a.flags = c.take("words", {extras.num_flags}, 8);
  a.host_words = c.take("words", {extras.num_host_words}, kLine);
  a.counts = c.take("counts", {s.num_ranks, s.experts}, kWord);
  a.sorted_slots = c.take("slots and weights", {s.slots}, kWord);
  a.weights = c.take("slots and weights", {s.slots}, kWord);
  a.x = c.take("staged x", {s.tokens, s.hidden}, kBf16);
  a.dy = c.take("staged dy", {s.tokens, s.hidden}, kBf16);
  a.x_ring = c.take("x ring", {s.ring_rows, s.hidden}, kBf16);
  a.dy_ring = c.take("dy ring", {s.ring_rows, s.hidden}, kBf16);
  const std::uint64_t out_rows = s.out_ring ? s.ring_rows : 0;
  a.out_ring = c.take("out ring", {out_rows, s.hidden}, kBf16);
  a.dw_ring = c.take("out ring", {out_rows}, kWord);
  a.routes = c.take("row routes", {s.route_rows}, 2 * kWord);
  a.row_weights = c.take("row routes", {s.route_rows}, kWord);
  a.landing = c.take("landing rows", {s.slots, s.hidden}, kBf16);
  a.dw_landing = c.take("landing rows", {s.slots}, kWord);
  a.bytes = c.bytes();
  return a;
}

LocalLayout make_local(const Sizes& s, const LayoutExtras& extras, std::vector<LayoutTerm>& terms) {
  NamedCarver c(terms);
  LocalLayout l;
  const std::uint64_t width = s.shared_intermediate;
  l.hidden_ring = c.take("hidden ring", {s.ring_rows, s.intermediate}, kBf16);
  l.gate_ring = c.take("gate and up rings", {s.ring_rows, s.intermediate}, kBf16);
  l.up_ring = c.take("gate and up rings", {s.ring_rows, s.intermediate}, kBf16);
  l.partials = c.take("dw partial sums", {s.ring_rows, s.partials}, kWord);
  l.spill = c.take("spill", {2, 3, s.hidden, s.intermediate}, kWord);
  l.shared_hidden = c.take("shared expert", {s.tokens, width}, kBf16);
  l.shared_gate = c.take("shared expert", {s.tokens, width}, kBf16);
  l.shared_up = c.take("shared expert", {s.tokens, width}, kBf16);
  l.shared_partials = c.take("shared expert", {s.tokens, s.shared_partials}, kWord);
  const std::uint64_t shared_tokens = width > 0 ? s.tokens : 0;
  l.shared_out = c.take("shared expert", {shared_tokens, s.hidden}, kBf16);
  l.shared_scale = c.take("shared expert", {shared_tokens}, kWord);
  l.shared_dz = c.take("shared expert", {shared_tokens}, kWord);
  l.counters = c.take("counters", {extras.num_counters}, kWord);
  l.cursors = c.take("counters", {2, kLine}, 1);
  l.sort = c.take("counters", {s.experts}, kWord);
  l.ids = c.take("ids", {s.slots}, kWord);
  l.tables = c.take("route tables", {extras.tables_bytes}, 1);
  l.scratch = c.take("worker scratch", {extras.workers, extras.worker_scratch_bytes}, 1);
  l.bytes = c.bytes();
  return l;
}

ContextLayout make_context(const Sizes& s, const LayoutExtras& extras, Save save,
                           std::vector<LayoutTerm>& terms) {
  NamedCarver c(terms);
  ContextLayout x;
  x.tables = c.take("route tables", {extras.tables_bytes}, 1);
  x.ids = c.take("ids and weights", {s.slots}, kWord);
  x.weights = c.take("ids and weights", {s.slots}, kWord);
  x.kept_bytes = c.bytes();
  NamedCarver saved(terms);
  x.x = saved.take("saved x", {s.saved_rows, s.hidden}, kBf16);
  x.gate = saved.take("saved gate and up", {s.saved_rows, s.intermediate}, kBf16);
  x.up = saved.take("saved gate and up", {s.saved_rows, s.intermediate}, kBf16);
  const std::uint64_t tokens = save == Save::kAll ? s.tokens : 0;
  x.shared_gate = saved.take("saved shared gate and up", {tokens, s.shared_intermediate}, kBf16);
  x.shared_up = saved.take("saved shared gate and up", {tokens, s.shared_intermediate}, kBf16);
  x.saved_bytes = saved.bytes();
  return x;
}

}  // namespace

Layout make_layout(const Sizes& sizes, const LayoutExtras& extras, Save save) {
  Layout layout;
  layout.arena = make_arena(sizes, extras, layout.workspace_terms);
  layout.local = make_local(sizes, extras, layout.workspace_terms);
  layout.context = make_context(sizes, extras, save, layout.context_terms);
  return layout;
}

}  // namespace mok
