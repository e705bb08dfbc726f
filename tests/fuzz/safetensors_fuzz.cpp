// safetensors_fuzz.cpp: any bytes either give one clean refusal or a file that round-trips.
#include <vector>

#include "fuzz_check.hpp"
#include "io/safetensors.hpp"

namespace {

using mok::io::Dtype;
using mok::io::SafetensorsFile;
using mok::io::Tensor;

using mok::fuzz::check_refusal;
using mok::fuzz::require;

void check_tensors(const SafetensorsFile& file, std::size_t num_file_bytes) {
  std::size_t num_bytes = 0;
  unsigned sum = 0;
  for (const Tensor& tensor : file.tensors()) {
    for (const std::byte b : tensor.bytes) {  // every byte must be readable
      sum += std::to_integer<unsigned>(b);
    }
    num_bytes += tensor.bytes.size();
    require(file.contains(tensor.name), "every tensor can be found");
    require(file.find(tensor.name).has_value() == (tensor.dtype != Dtype::kOther),
            "a tensor is given exactly if its dtype is read");
  }
  require(num_bytes <= num_file_bytes && sum <= 255 * num_bytes, "tensors lie within the file");
}

void check_round_trip(const SafetensorsFile& file) {
  std::vector<mok::io::TensorToWrite> tensors;
  for (const Tensor& tensor : file.tensors()) {
    if (tensor.dtype != Dtype::kOther) {
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    }
  }
  const auto prefix = mok::io::safetensors_prefix(tensors, file.metadata());
  require(prefix.has_value(), "what was read can be written");
  require(prefix->size() % 8 == 0, "the header is padded");
  std::string bytes = *prefix;
  for (const auto& tensor : tensors) {
    bytes += mok::io::as_text(tensor.bytes);
  }
  const auto again = mok::io::parse_safetensors(std::as_bytes(std::span(bytes)), "again");
  require(again.has_value(), "what was written can be read");
  require(again->metadata() == file.metadata(), "metadata survives");
  require(again->tensors().size() == tensors.size(), "all tensors survive");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = again->tensors()[i];
    require(tensor.name == tensors[i].name && tensor.dtype == tensors[i].dtype &&
                tensor.shape == tensors[i].shape &&
                mok::io::as_text(tensor.bytes) == mok::io::as_text(tensors[i].bytes),
            "each tensor survives");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = mok::io::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
  if (!file) {
    check_refusal(file.error());
    return 0;
  }
  check_tensors(*file, size);
  check_round_trip(*file);
  return 0;
}
