// safetensors_write.cpp: writing a safetensors file.
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "io/safetensors.hpp"
#include "io/safetensors_header.hpp"

namespace mok::io {

namespace {

constexpr std::size_t kHeaderAlignment = 8;

// JSON string; the library throws for invalid UTF-8, the caller turns that into a Status.
std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump();
}

Status check_tensor(const TensorToWrite& tensor) {
  const std::string subject = "tensor " + in_quotes(tensor.name);
  const std::string type = std::string{dtype_name(tensor.dtype)} + " " + shape_text(tensor.shape);
  if (tensor.name == "__metadata__") {
    return Status::bad_argument(subject, type, "this name is the format's own");
  }
  if (tensor.dtype == Dtype::kOther) {
    return Status::bad_argument(subject, type, "dtype must be BF16, F32, I32 or I64");
  }
  if (tensor.shape.size() > kMaxDims) {
    return Status::bad_argument(subject, type,
                                "must have at most " + std::to_string(kMaxDims) + " dimensions");
  }
  const std::optional<std::uint64_t> count = num_elements(tensor.shape);
  const std::uint64_t element_bytes = *dtype_bits(dtype_name(tensor.dtype)) / 8;
  if (!count || tensor.bytes.size() % element_bytes != 0 ||
      tensor.bytes.size() / element_bytes != *count) {
    return Status::bad_argument(subject,
                                type + ", " + std::to_string(tensor.bytes.size()) + " bytes",
                                "the bytes must be those of dtype x shape");
  }
  return {};
}

std::string header_text(std::span<const TensorToWrite> tensors, const Metadata& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, text] : metadata) {
      header += (header.back() == '{' ? "" : ",") + json_string(key) + ":" + json_string(text);
    }
    header += "}";
  }
  std::uint64_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t end = begin + tensor.bytes.size();
    header += (header.size() == 1 ? "" : ",") + json_string(tensor.name) + ":{\"dtype\":\"" +
              std::string{dtype_name(tensor.dtype)} + "\",\"shape\":" + shape_text(tensor.shape) +
              ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  header += "}";
  header.resize((header.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return header;
}

}  // namespace

Result<std::string> safetensors_prefix(std::span<const TensorToWrite> tensors,
                                       const Metadata& metadata) {
  std::unordered_set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    if (Status status = check_tensor(tensor); !status.ok()) {
      return failure(std::move(status));
    }
    if (!names.insert(tensor.name).second) {
      return failure(Status::bad_argument("tensor " + in_quotes(tensor.name), "the name twice",
                                          "tensor names must be distinct"));
    }
  }
  std::string header;
  try {
    header = header_text(tensors, metadata);
  } catch (const nlohmann::json::exception&) {
    return failure(Status::bad_argument("tensor names and metadata", "bytes that are not UTF-8",
                                        "must be UTF-8"));
  }
  if (header.size() > kMaxHeaderBytes) {
    return failure(
        Status::bad_argument("header", std::to_string(header.size()) + " bytes",
                             "must be at most " + std::to_string(kMaxHeaderBytes) + " bytes"));
  }
  const auto length_bytes =
      std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(header.size()));
  return std::string(length_bytes.data(), length_bytes.size()) + header;
}

Status write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                         const Metadata& metadata) {
  Result<std::string> prefix = safetensors_prefix(tensors, metadata);
  if (!prefix) {
    return prefix.error();
  }
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(*prefix))};
  for (const TensorToWrite& tensor : tensors) {
    pieces.push_back(tensor.bytes);
  }
  return write_file_atomically(path, pieces);
}

}  // namespace mok::io
