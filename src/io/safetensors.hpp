// safetensors.hpp: reader and writer of the safetensors format.
//
// A file is: header length (u64, little-endian), header (a JSON object from tensor name to dtype,
// shape and data_offsets), then the tensors' bytes. The tensors must cover the data exactly: an
// overlap, a hole or bytes after the last one could hide a mistake or a second meaning.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "core/bf16.hpp"
#include "io/file.hpp"
#include "mok/status.hpp"

namespace mok::io {

static_assert(std::endian::native == std::endian::little, "the format's bytes are little-endian");

enum class Dtype : std::uint8_t { kBf16, kF32, kI32, kI64, kOther };

[[nodiscard]] std::string_view dtype_name(Dtype dtype);

template <class T>
[[nodiscard]] constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, Bf16>) {
    return Dtype::kBf16;
  } else if constexpr (std::is_same_v<T, float>) {
    return Dtype::kF32;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return Dtype::kI32;
  } else {
    static_assert(std::is_same_v<T, std::int64_t>, "no dtype for this type");
    return Dtype::kI64;
  }
}

using Metadata = std::map<std::string, std::string>;

// One tensor of a file that was read; `bytes` points into the file object, 64-byte aligned.
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::kOther;
  std::string dtype_text;  // as the file says it
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Matches any size in an expected shape.
inline constexpr std::int64_t kAnySize = -1;

// Owns the bytes; spans handed out live as long as this object (moving it keeps them valid).
class SafetensorsFile {
 public:
  SafetensorsFile(std::string path, std::vector<Tensor> tensors, Metadata metadata,
                  AlignedBytes storage);

  // In the order of the header.
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  [[nodiscard]] bool contains(std::string_view name) const;
  // Refuses an unknown name and a dtype that MoK does not read.
  [[nodiscard]] Result<const Tensor*> find(std::string_view name) const;

  // The elements of a tensor that must have this type and shape (kAnySize: any).
  template <class T>
  [[nodiscard]] Result<std::span<const T>> values(std::string_view name,
                                                  std::span<const std::int64_t> shape) const {
    Result<const Tensor*> tensor = find_exactly(name, dtype_of<T>(), shape);
    if (!tensor) {
      return failure(tensor.error());
    }
    return std::span<const T>(reinterpret_cast<const T*>((*tensor)->bytes.data()),
                              (*tensor)->bytes.size() / sizeof(T));
  }

 private:
  [[nodiscard]] Result<const Tensor*> find_exactly(std::string_view name, Dtype dtype,
                                                   std::span<const std::int64_t> shape) const;

  std::string path_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  Metadata metadata_;
  AlignedBytes storage_;
};

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxDims = 16;

struct SafetensorsLimits {
  std::uint64_t max_file_bytes = std::uint64_t{1} << 40;
};

// Every malformed file is one Status::bad_file(path, value, rule).
Result<SafetensorsFile> read_safetensors(const std::string& path, SafetensorsLimits limits = {});

// The same from memory; `name` stands for the path in messages. The bytes are copied.
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& name,
                                          SafetensorsLimits limits = {});

struct TensorToWrite {
  std::string name;
  Dtype dtype = Dtype::kOther;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

template <class T>
TensorToWrite tensor_to_write(std::string name, std::vector<std::int64_t> shape,
                              std::span<const T> values) {
  return {std::move(name), dtype_of<T>(), std::move(shape), std::as_bytes(values)};
}

// The tensors in the given order, without gaps, the header padded with spaces to 8 bytes; the file
// appears complete or not at all. A name that is used twice, a size that is not dtype x shape or a
// dtype that cannot be written is a bad_argument.
[[nodiscard]] Status write_safetensors(const std::string& path,
                                       std::span<const TensorToWrite> tensors,
                                       const Metadata& metadata = {});

// Length word, header and padding: what write_safetensors() puts before the data.
Result<std::string> safetensors_prefix(std::span<const TensorToWrite> tensors,
                                       const Metadata& metadata = {});

}  // namespace mok::io
