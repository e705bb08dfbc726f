// safetensors_header.cpp: header text to checked table.
#include "io/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace mok::io {

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr int kMaxNesting = 8;  // the format needs 3

struct DtypeBits {
  std::string_view text;
  std::uint64_t bits;
};
constexpr std::array kDtypeBits{
    DtypeBits{"BOOL", 8},    DtypeBits{"U8", 8},      DtypeBits{"I8", 8},
    DtypeBits{"F8_E4M3", 8}, DtypeBits{"F8_E5M2", 8}, DtypeBits{"F8_E8M0", 8},
    DtypeBits{"U16", 16},    DtypeBits{"I16", 16},    DtypeBits{"F16", 16},
    DtypeBits{"BF16", 16},   DtypeBits{"U32", 32},    DtypeBits{"I32", 32},
    DtypeBits{"F32", 32},    DtypeBits{"U64", 64},    DtypeBits{"I64", 64},
    DtypeBits{"F64", 64},    DtypeBits{"C64", 64},    DtypeBits{"F4", 4},
    DtypeBits{"F6_E2M3", 6}, DtypeBits{"F6_E3M2", 6},
};

// depth 0: the header; 1: the entries by name; 2: the fields of one; 3: elements of its arrays.
class HeaderVisitor final : public JsonVisitor {
 public:
  explicit HeaderVisitor(HeaderTable& table) : table_(table) {}

  bool on_open(int depth, JsonContainer container) override {
    const bool is_object = container == JsonContainer::kObject;
    if (depth == 0) {
      return is_object || refuse_header();
    }
    if (depth == 1) {
      return is_object || refuse_entry();
    }
    if (depth == 2 && !is_object && field_ != Field::kDtype && field_ != Field::kMetadata) {
      return true;
    }
    return refuse_field();
  }

  bool on_close(int depth) override {
    if (depth != 1 || in_metadata_) {
      return true;
    }
    if (!seen_dtype_ || !seen_shape_ || !seen_offsets_) {
      const char* missing = !seen_dtype_ ? "dtype" : !seen_shape_ ? "shape" : "data_offsets";
      return refuse(subject() + " has no " + missing,
                    "a tensor needs dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2) {
      return refuse(subject() + " has " + std::to_string(offsets_.size()) + " data_offsets",
                    "data_offsets must be [begin, end]");
    }
    table_.entries.back().begin = offsets_[0];
    table_.entries.back().end = offsets_[1];
    return true;
  }

  bool on_key(int depth, std::string&& key) override {
    if (depth == 1) {
      in_metadata_ = key == kMetadataKey;
      if (!in_metadata_) {
        table_.entries.push_back({std::move(key), {}, {}, 0, 0});
      }
      seen_dtype_ = seen_shape_ = seen_offsets_ = false;
      offsets_.clear();
      return true;
    }
    if (in_metadata_) {
      field_ = Field::kMetadata;
      metadata_key_ = std::move(key);
    } else if (key == "dtype") {
      field_ = Field::kDtype;
      seen_dtype_ = true;
    } else if (key == "shape") {
      field_ = Field::kShape;
      seen_shape_ = true;
    } else if (key == "data_offsets") {
      field_ = Field::kOffsets;
      seen_offsets_ = true;
    } else {
      return refuse(subject() + " has the unknown field " + in_quotes(key),
                    "a tensor has dtype, shape and data_offsets only");
    }
    return true;
  }

  bool on_string(int depth, std::string&& text) override {
    if (depth == 2 && field_ == Field::kMetadata) {
      table_.metadata[metadata_key_] = std::move(text);
      return true;
    }
    if (depth == 2 && field_ == Field::kDtype) {
      table_.entries.back().dtype_text = std::move(text);
      return true;
    }
    return refuse_scalar(depth);
  }

  bool on_number(int depth, const JsonNumber& number) override {
    if (depth != 3) {
      return refuse_scalar(depth);
    }
    const bool is_shape = field_ == Field::kShape;
    if (!number.whole || *number.whole < 0) {
      return refuse(
          subject() + (is_shape ? " has the size " : " has the offset ") + in_quotes(number.text),
          "sizes and offsets must be whole numbers from 0 to 2^63 - 1");
    }
    if (!is_shape) {
      offsets_.push_back(static_cast<std::uint64_t>(*number.whole));
      return offsets_.size() <= 2 || refuse(subject() + " has more than 2 data_offsets",
                                            "data_offsets must be [begin, end]");
    }
    std::vector<std::int64_t>& shape = table_.entries.back().shape;
    shape.push_back(*number.whole);
    return shape.size() <= kMaxDims ||
           refuse(subject() + " has more than " + std::to_string(kMaxDims) + " dimensions",
                  "must have at most " + std::to_string(kMaxDims));
  }

  bool on_word(int depth, std::string_view /*word*/) override { return refuse_scalar(depth); }

 private:
  enum class Field : std::uint8_t { kDtype, kShape, kOffsets, kMetadata };

  [[nodiscard]] std::string subject() const {
    return in_metadata_ ? std::string{kMetadataKey}
                        : "tensor " + in_quotes(table_.entries.back().name);
  }
  bool refuse_header() {
    return refuse("a header that is no object", "the header must be a JSON object");
  }
  bool refuse_entry() {
    return refuse(subject() + " is no object", "each entry of the header must be a JSON object");
  }
  bool refuse_field() {
    switch (field_) {
      case Field::kMetadata:
        return refuse(
            subject() + " has a value that is no string under " + in_quotes(metadata_key_),
            "metadata must be strings");
      case Field::kDtype:
        return refuse(subject() + " has a dtype that is no string", "dtype must be a string");
      case Field::kShape:
        return refuse(subject() + " has a shape that is no list of numbers",
                      "shape must be a list of whole numbers");
      case Field::kOffsets:
        return refuse(subject() + " has data_offsets that are no list of numbers",
                      "data_offsets must be [begin, end]");
    }
    return false;
  }
  bool refuse_scalar(int depth) {
    return depth == 0 ? refuse_header() : depth == 1 ? refuse_entry() : refuse_field();
  }

  HeaderTable& table_;
  bool in_metadata_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
  Field field_ = Field::kDtype;
  std::vector<std::uint64_t> offsets_;
  std::string metadata_key_;
};

std::string range_text(const HeaderEntry& entry) {
  return "[" + std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]";
}

std::optional<JsonProblem> check_entry(const HeaderEntry& entry, std::uint64_t data_bytes) {
  const std::string subject = "tensor " + in_quotes(entry.name);
  if (entry.begin > entry.end) {
    return JsonProblem{subject + " at " + range_text(entry), "begin must not be above end"};
  }
  if (entry.end > data_bytes) {
    return JsonProblem{subject + " at " + range_text(entry),
                       "must end within the " + std::to_string(data_bytes) + " bytes of data"};
  }
  const std::optional<std::uint64_t> count = num_elements(entry.shape);
  if (!count) {
    return JsonProblem{subject + " of shape " + shape_text(entry.shape),
                       "its number of elements must fit 63 bits"};
  }
  const std::optional<std::uint64_t> bits_each = dtype_bits(entry.dtype_text);
  if (!bits_each) {
    return std::nullopt;  // its size cannot be known; asking for it is refused later
  }
  std::uint64_t bits = 0;
  const std::uint64_t stored_bytes = entry.end - entry.begin;
  const bool overflow = __builtin_mul_overflow(*count, *bits_each, &bits);
  if (overflow || bits % 8 != 0 || bits / 8 != stored_bytes) {
    return JsonProblem{
        subject + ", " + entry.dtype_text + " " + shape_text(entry.shape) + ", in " +
            std::to_string(stored_bytes) + " bytes",
        "dtype x shape needs " + (overflow ? std::string{"more than 64 bits can count"}
                                           : std::to_string(bits / 8) +
                                                 (bits % 8 == 0 ? " bytes" : " bytes and a part"))};
  }
  return std::nullopt;
}

// Sorted by position, each tensor must begin where the one before it ends.
std::optional<JsonProblem> check_cover(const std::vector<HeaderEntry>& entries,
                                       std::uint64_t data_bytes) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair{entries[a].begin, entries[a].end} <
           std::pair{entries[b].begin, entries[b].end};
  });
  std::uint64_t covered = 0;
  for (const std::size_t i : order) {
    const HeaderEntry& entry = entries[i];
    if (entry.begin < covered) {
      return JsonProblem{
          "tensor " + in_quotes(entry.name) + " at " + range_text(entry) + " overlaps another",
          "tensors must not share bytes"};
    }
    if (entry.begin > covered) {
      return JsonProblem{"a hole of " + std::to_string(entry.begin - covered) +
                             " bytes before tensor " + in_quotes(entry.name),
                         "tensors must cover the data without holes"};
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    return JsonProblem{std::to_string(data_bytes - covered) + " bytes after the last tensor",
                       "the file must end with its last tensor"};
  }
  return std::nullopt;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16: return "BF16";
    case Dtype::kF32: return "F32";
    case Dtype::kI32: return "I32";
    case Dtype::kI64: return "I64";
    case Dtype::kOther: return "other";
  }
  return "other";
}

Dtype dtype_from_text(std::string_view text) {
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kF32, Dtype::kI32, Dtype::kI64}) {
    if (text == dtype_name(dtype)) {
      return dtype;
    }
  }
  return Dtype::kOther;
}

std::optional<std::uint64_t> dtype_bits(std::string_view text) {
  for (const DtypeBits& row : kDtypeBits) {
    if (row.text == text) {
      return row.bits;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> num_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  bool any_zero = false;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      return std::nullopt;
    }
    any_zero = any_zero || size == 0;
    if (size != 0 && __builtin_mul_overflow(product, size, &product)) {
      return std::nullopt;
    }
  }
  return any_zero ? 0 : static_cast<std::uint64_t>(product);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? "," : "") + (size == kAnySize ? "any" : std::to_string(size));
  }
  return text + "]";
}

std::optional<JsonProblem> parse_header(std::string_view header, std::uint64_t data_bytes,
                                        HeaderTable& table) {
  if (!header.starts_with('{')) {
    return JsonProblem{"a header that is no object", "the header must be a JSON object"};
  }
  HeaderVisitor visitor(table);
  if (std::optional<JsonProblem> problem = parse_json_strict(header, kMaxNesting, visitor)) {
    return problem;
  }
  for (const HeaderEntry& entry : table.entries) {
    if (std::optional<JsonProblem> problem = check_entry(entry, data_bytes)) {
      return problem;
    }
  }
  return check_cover(table.entries, data_bytes);
}

}  // namespace mok::io
