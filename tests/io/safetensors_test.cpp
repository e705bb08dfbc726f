// safetensors_test.cpp: round trips, the bytes of the format, and access to tensors.
#include "io/safetensors.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "safetensors_bytes.hpp"
#include "test_files.hpp"

namespace mok::io {
namespace {

using testing_files::bytes_of;
using testing_files::get;
using testing_files::put;
using testing_files::safetensors_bytes;
using testing_files::TempFolder;

TEST(Safetensors, RoundTripsEveryDtype) {
  const TempFolder folder;
  const std::vector<Bf16> x{to_bf16(1.0F), to_bf16(-2.5F), to_bf16(0.0F)};
  const std::vector<float> w{0.5F, -1e30F};
  const std::vector<std::int32_t> ids{-1, 7, 2147483647, 0};
  const std::vector<std::int64_t> wide{-1, std::int64_t{1} << 40};
  const std::vector<float> none;
  const std::vector<float> scalar{3.0F};
  const std::vector<TensorToWrite> tensors{
      tensor_to_write<Bf16>("x", {3}, x),
      tensor_to_write<float>("w \"\xc3\xa4\n", {1, 2}, w),
      tensor_to_write<std::int32_t>("ids", {2, 2}, ids),
      tensor_to_write<float>("none", {0, 5}, none),
      tensor_to_write<std::int64_t>("wide", {2, 1, 1}, wide),
      tensor_to_write<float>("scalar", {}, scalar),
  };
  const Metadata metadata{{"made by", "test"}, {"\xe2\x82\xac", ""}};
  ASSERT_TRUE(write_safetensors(folder.file("t"), tensors, metadata).ok());
  EXPECT_EQ(folder.num_entries(), 1);

  const Result<SafetensorsFile> file = read_safetensors(folder.file("t"));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->metadata(), metadata);
  ASSERT_EQ(file->tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = file->tensors()[i];
    EXPECT_EQ(tensor.name, tensors[i].name);
    EXPECT_EQ(tensor.dtype, tensors[i].dtype);
    EXPECT_EQ(tensor.shape, tensors[i].shape);
    EXPECT_EQ(as_text(tensor.bytes), as_text(tensors[i].bytes));
    // The 6 bytes of x leave the next tensor at an odd place in the file, not in memory.
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 64, 0U);
  }
  const auto read_ids = file->values<std::int32_t>("ids", std::array<std::int64_t, 2>{2, kAnySize});
  ASSERT_TRUE(read_ids);
  EXPECT_EQ(std::vector(read_ids->begin(), read_ids->end()), ids);
}

TEST(Safetensors, WritesTheBytesOfTheFormat) {
  const TempFolder folder;
  const std::array<std::int32_t, 2> ids{1, -1};
  const std::array tensors{tensor_to_write<std::int32_t>("a", {2}, ids)};
  ASSERT_TRUE(write_safetensors(folder.file("t"), tensors).ok());
  const std::string header = R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})"
                             "  ";
  ASSERT_EQ(header.size(), 56U);
  EXPECT_EQ(get(folder.file("t")), std::string("\x38\0\0\0\0\0\0\0", 8) + header +
                                       std::string("\1\0\0\0\xff\xff\xff\xff", 8));
}

TEST(Safetensors, FileWithoutTensorsRoundTrips) {
  const TempFolder folder;
  ASSERT_TRUE(write_safetensors(folder.file("t"), {}).ok());
  EXPECT_EQ(get(folder.file("t")), std::string("\x8\0\0\0\0\0\0\0{}      ", 16));
  const Result<SafetensorsFile> file = read_safetensors(folder.file("t"));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->tensors().empty());
}

TEST(Safetensors, ReadsTensorsInAnyOrderOfTheirData) {
  const Result<SafetensorsFile> file = parse_safetensors(
      bytes_of(safetensors_bytes(R"({"b":{"dtype":"I32","shape":[1],"data_offsets":[4,8]},)"
                                 R"("e":{"data_offsets":[4,4],"shape":[0],"dtype":"F32"},)"
                                 R"("a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}} )",
                                 "aaaabbbb")),
      "m");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(as_text((*file->find("b"))->bytes), "bbbb");
  EXPECT_EQ(as_text((*file->find("a"))->bytes), "aaaa");
  EXPECT_EQ((*file->find("e"))->bytes.size(), 0U);
}

TEST(Safetensors, SpansSurviveAMove) {
  Result<SafetensorsFile> file =
      parse_safetensors(bytes_of(safetensors_bytes(
                            R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "aaaa")),
                        "m");
  ASSERT_TRUE(file);
  const std::span<const std::byte> bytes = (*file->find("a"))->bytes;
  const SafetensorsFile moved = std::move(*file);
  EXPECT_EQ((*moved.find("a"))->bytes.data(), bytes.data());
  EXPECT_EQ(as_text(bytes), "aaaa");
}

TEST(Safetensors, OtherDtypesAreRefusedOnlyWhenAskedFor) {
  const Result<SafetensorsFile> file = parse_safetensors(
      bytes_of(safetensors_bytes(R"({"half":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                                 R"("tiny":{"dtype":"F4","shape":[2],"data_offsets":[4,5]},)"
                                 R"("new":{"dtype":"F3_NEW","shape":[9],"data_offsets":[5,8]},)"
                                 R"("ids":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}})",
                                 "aaaabcccdddd")),
      "m");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_TRUE(file->find("ids"));
  EXPECT_TRUE(file->contains("half"));
  EXPECT_FALSE(file->contains("whole"));
  EXPECT_EQ(file->find("half").error().message(),
            "bad_file: m = tensor 'half' of dtype 'F16': dtype must be BF16, F32, I32 or I64");
  EXPECT_EQ(file->find("new").error().message(),
            "bad_file: m = tensor 'new' of dtype 'F3_NEW': dtype must be BF16, F32, I32 or I64");
  EXPECT_EQ(file->find("whole").error().message(),
            "bad_file: m = no tensor 'whole': must hold 'whole'");
  const std::array<std::int64_t, 1> one{1};
  const std::array<std::int64_t, 2> two{kAnySize, 1};
  EXPECT_EQ(file->values<float>("ids", one).error().message(),
            "bad_file: m = tensor 'ids', I32 [1]: must be F32 [1]");
  EXPECT_EQ(file->values<std::int32_t>("ids", two).error().message(),
            "bad_file: m = tensor 'ids', I32 [1]: must be I32 [any,1]");
}

TEST(Safetensors, WriterRefusesBadArguments) {
  const TempFolder folder;
  const std::array<float, 2> values{1, 2};
  const auto message = [&](const std::vector<TensorToWrite>& tensors) {
    return write_safetensors(folder.file("t"), tensors).message();
  };
  const TensorToWrite good = tensor_to_write<float>("a", {2}, values);
  EXPECT_EQ(message({good, good}),
            "bad_argument: tensor 'a' = the name twice: tensor names must be distinct");
  TensorToWrite bad = good;
  bad.shape = {3};
  EXPECT_EQ(
      message({bad}),
      "bad_argument: tensor 'a' = F32 [3], 8 bytes: the bytes must be those of dtype x shape");
  bad.shape = {-2};
  EXPECT_EQ(message({bad}).substr(0, 33), "bad_argument: tensor 'a' = F32 [-");
  bad = good;
  bad.dtype = Dtype::kOther;
  EXPECT_EQ(message({bad}),
            "bad_argument: tensor 'a' = other [2]: dtype must be BF16, F32, I32 or I64");
  bad = good;
  bad.shape.assign(17, 1);
  EXPECT_NE(message({bad}).find("must have at most 16 dimensions"), std::string::npos);
  bad = good;
  bad.name = "__metadata__";
  EXPECT_EQ(message({bad}),
            "bad_argument: tensor '__metadata__' = F32 [2]: this name is the format's own");
  bad.name = "\xff";
  EXPECT_EQ(message({bad}),
            "bad_argument: tensor names and metadata = bytes that are not UTF-8: must be UTF-8");
  EXPECT_EQ(folder.num_entries(), 0) << "a refusal must write nothing";
  EXPECT_EQ(write_safetensors(folder.file("no/t"), std::array{good}).code(), Code::kBadFile);
}

}  // namespace
}  // namespace mok::io
