// safetensors.cpp: reading a safetensors file or its bytes, and access to the tensors.
#include "io/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "io/safetensors_header.hpp"

namespace mok::io {

namespace {

constexpr std::uint64_t kLengthBytes = 8;

// Where the bytes come from: a file at an offset, or memory.
struct ByteSource {
  std::uint64_t size_bytes = 0;
  std::function<Status(std::uint64_t offset, std::span<std::byte> out)> read;
};

std::uint64_t aligned(std::uint64_t num_bytes) {
  return (num_bytes + AlignedBytes::kAlignment - 1) / AlignedBytes::kAlignment *
         AlignedBytes::kAlignment;
}

Result<std::string> load_header(const ByteSource& source, const std::string& path) {
  if (source.size_bytes < kLengthBytes) {
    return failure(Status::bad_file(path, std::to_string(source.size_bytes) + " bytes",
                                    "must be at least 8 bytes, the length of the header"));
  }
  std::uint64_t length = 0;
  if (Status status = source.read(0, std::as_writable_bytes(std::span(&length, 1))); !status.ok()) {
    return failure(std::move(status));
  }
  const std::string value = "a header of " + std::to_string(length) + " bytes";
  if (length > kMaxHeaderBytes) {
    return failure(Status::bad_file(
        path, value, "the header must be at most " + std::to_string(kMaxHeaderBytes) + " bytes"));
  }
  if (length > source.size_bytes - kLengthBytes) {
    return failure(Status::bad_file(
        path, value,
        "the header must end within the file of " + std::to_string(source.size_bytes) + " bytes"));
  }
  std::string header(length, '\0');
  if (Status status = source.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
      !status.ok()) {
    return failure(std::move(status));
  }
  return header;
}

// Each tensor gets its own aligned place: the format promises no alignment for elements.
Result<SafetensorsFile> load(const ByteSource& source, const std::string& path) {
  Result<std::string> header = load_header(source, path);
  if (!header) {
    return failure(header.error());
  }
  const std::uint64_t data_begin = kLengthBytes + header->size();
  HeaderTable table;
  if (const auto problem = parse_header(*header, source.size_bytes - data_begin, table)) {
    return failure(Status::bad_file(path, problem->value, problem->rule));
  }
  std::uint64_t storage_bytes = 0;
  for (const HeaderEntry& entry : table.entries) {
    storage_bytes +=
        aligned(entry.end - entry.begin);  // at most file size + 64 a tensor: no overflow
  }
  Result<AlignedBytes> storage = AlignedBytes::allocate(storage_bytes);
  if (!storage) {
    return failure(storage.error());
  }
  std::vector<Tensor> tensors;
  tensors.reserve(table.entries.size());
  std::span<std::byte> rest = storage->bytes();
  for (HeaderEntry& entry : table.entries) {
    const std::uint64_t num_bytes = entry.end - entry.begin;
    const std::span<std::byte> place = rest.first(num_bytes);
    if (Status status = source.read(data_begin + entry.begin, place); !status.ok()) {
      return failure(std::move(status));
    }
    rest = rest.subspan(aligned(num_bytes));
    const Dtype dtype = dtype_from_text(entry.dtype_text);
    tensors.push_back(
        {std::move(entry.name), dtype, std::move(entry.dtype_text), std::move(entry.shape), place});
  }
  return SafetensorsFile(path, std::move(tensors), std::move(table.metadata), std::move(*storage));
}

Result<SafetensorsFile> load_without_exceptions(const ByteSource& source, const std::string& path) {
  try {
    return load(source, path);
  } catch (const std::bad_alloc&) {
    return failure(Status::environment(path, "out of memory while reading the header",
                                       "free memory or use a smaller file"));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path, std::vector<Tensor> tensors, Metadata metadata,
                                 AlignedBytes storage)
    : path_(std::move(path)),
      tensors_(std::move(tensors)),
      metadata_(std::move(metadata)),
      storage_(std::move(storage)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    index_.emplace(tensors_[i].name, i);
  }
}

bool SafetensorsFile::contains(std::string_view name) const {
  return index_.contains(std::string{name});
}

Result<const Tensor*> SafetensorsFile::find(std::string_view name) const {
  const auto place = index_.find(std::string{name});
  if (place == index_.end()) {
    return failure(
        Status::bad_file(path_, "no tensor " + in_quotes(name), "must hold " + in_quotes(name)));
  }
  const Tensor& tensor = tensors_[place->second];
  if (tensor.dtype == Dtype::kOther) {
    return failure(Status::bad_file(
        path_, "tensor " + in_quotes(name) + " of dtype " + in_quotes(tensor.dtype_text),
        "dtype must be BF16, F32, I32 or I64"));
  }
  return &tensor;
}

Result<const Tensor*> SafetensorsFile::find_exactly(std::string_view name, Dtype dtype,
                                                    std::span<const std::int64_t> shape) const {
  Result<const Tensor*> tensor = find(name);
  if (!tensor) {
    return tensor;
  }
  const bool fits = std::equal(
      shape.begin(), shape.end(), (*tensor)->shape.begin(), (*tensor)->shape.end(),
      [](std::int64_t wanted, std::int64_t size) { return wanted == kAnySize || wanted == size; });
  if ((*tensor)->dtype != dtype || !fits) {
    return failure(
        Status::bad_file(path_,
                         "tensor " + in_quotes(name) + ", " + (*tensor)->dtype_text + " " +
                             shape_text((*tensor)->shape),
                         "must be " + std::string{dtype_name(dtype)} + " " + shape_text(shape)));
  }
  return tensor;
}

Result<SafetensorsFile> read_safetensors(const std::string& path, SafetensorsLimits limits) {
  Result<InputFile> file = InputFile::open(path, limits.max_file_bytes);
  if (!file) {
    return failure(file.error());
  }
  return load_without_exceptions(
      {file->size_bytes(),
       [&](std::uint64_t offset, std::span<std::byte> out) { return file->read_at(offset, out); }},
      path);
}

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& name,
                                          SafetensorsLimits limits) {
  if (bytes.size() > limits.max_file_bytes) {
    return failure(
        Status::bad_file(name, std::to_string(bytes.size()) + " bytes",
                         "must be at most " + std::to_string(limits.max_file_bytes) + " bytes"));
  }
  const auto copy = [bytes](std::uint64_t offset, std::span<std::byte> out) {
    const std::span<const std::byte> from = bytes.subspan(offset, out.size());
    std::copy(from.begin(), from.end(), out.begin());
    return Status{};
  };
  return load_without_exceptions({bytes.size(), copy}, name);
}

}  // namespace mok::io
