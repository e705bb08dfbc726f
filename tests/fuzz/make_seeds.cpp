// make_seeds.cpp: writes the seed corpus of the fuzz targets: make_seeds FOLDER, which gets
// FOLDER/safetensors and FOLDER/routing, files that are good or wrong in one way each.
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../io/safetensors_bytes.hpp"
#include "io/file.hpp"
#include "io/safetensors.hpp"

namespace {

using Seeds = std::vector<std::string>;
using mok::io::testing_files::safetensors_bytes;
using mok::io::testing_files::with_length;

Seeds safetensors_seeds() {
  const std::array<float, 3> values{1, -2, 3};
  const std::array<std::int32_t, 2> ids{-1, 4};
  const std::array tensors{
      mok::io::tensor_to_write<float>("weights", {3, 1}, values),
      mok::io::tensor_to_write<std::int32_t>("ids", {2}, ids),
      mok::io::tensor_to_write<float>("none", {0}, {}),
  };
  std::string good = mok::io::safetensors_prefix(tensors, {{"key", "text"}}).value_or("");
  for (const auto& tensor : tensors) {
    good += mok::io::as_text(tensor.bytes);
  }
  const std::string entry = R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]})";
  return {
      good,
      good.substr(0, good.size() - 1),
      good + "x",
      safetensors_bytes("{}", ""),
      safetensors_bytes("{" + entry + "}", "dddd"),
      safetensors_bytes("{" + entry + "," + entry + "}", "dddd"),
      safetensors_bytes("{" + entry + R"(,"b":{"dtype":"F4","shape":[8],"data_offsets":[4,8]}})",
                        "ddddffff"),
      safetensors_bytes(R"({"a":{"dtype":"NEW","shape":[],"data_offsets":[0,4]}})", "dddd"),
      safetensors_bytes(R"({"a":{"dtype":"I64","shape":[4294967296,0],"data_offsets":[0,0]}})", ""),
      safetensors_bytes(R"({"\u00e4\n":{"dtype":"I32","shape":[1e3],"data_offsets":[-1,4]}})", ""),
      safetensors_bytes(R"({"__metadata__":{"k":"v"},"a":[[[null,true,false,0.5]]]})", ""),
      with_length(~std::uint64_t{0}, "{}"),
      "short",
  };
}

Seeds routing_seeds() {
  const std::string header = R"({"model":"m","layer":0,"num_experts":8,"top_k":2})"
                             "\n";
  const std::string token = R"({"ids":[1,-1],"weights":[0.75,2.5e-1]})"
                            "\n";
  const std::string other_header =
      R"({"x":{"y":[1,"z",null]},"model":"m","layer":1,"num_experts":1,"top_k":1})"
      "\n";
  return {
      header + token + token,
      header + token + token.substr(0, 20),
      header + token + "\n",
      header,
      other_header + R"({"weights":[1],"ids":[0]})",
      header + R"({"ids":[1,8],"weights":[0,0]})",
      header + R"({"ids":[1,2,3],"weights":[0,0]})",
      header + R"({"ids":[1,2],"weights":[1e999,-3.5e38]})",
      header + R"({"ids":[1,2],"ids":[1,2],"weights":[0,0]})",
      R"({"model":"m","layer":0,"num_experts":18446744073709551616,"top_k":33})",
      "[[[[",
      "",
  };
}

bool write_seeds(const std::string& folder, const Seeds& seeds) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    const std::array pieces{std::as_bytes(std::span(seeds[i]))};
    const mok::Status status =
        mok::io::write_file_atomically(folder + "/seed_" + std::to_string(i), pieces);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  const bool ok = write_seeds(folder + "/safetensors", safetensors_seeds()) &&
                  write_seeds(folder + "/routing", routing_seeds());
  return ok ? 0 : 2;
}
