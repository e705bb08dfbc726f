// safetensors_malformed_test.cpp: every way a file can lie, with the one line that answers it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/safetensors.hpp"
#include "safetensors_bytes.hpp"
#include "test_files.hpp"

namespace mok::io {
namespace {

using testing_files::bytes_of;
using testing_files::put;
using testing_files::safetensors_bytes;
using testing_files::TempFolder;
using testing_files::with_length;

struct BadCase {
  std::string bytes;
  std::string message;  // after the name
};

// Through memory and through a file: both must say the same.
void expect_refused(const std::vector<BadCase>& cases) {
  const TempFolder folder;
  const std::string path = folder.file("t");
  for (const BadCase& c : cases) {
    put(path, c.bytes);
    for (const Result<SafetensorsFile>& file :
         {parse_safetensors(bytes_of(c.bytes), path), read_safetensors(path)}) {
      ASSERT_FALSE(file) << c.message;
      EXPECT_EQ(file.error().code(), Code::kBadFile);
      EXPECT_EQ(file.error().message(), "bad_file: " + path + " = " + c.message);
    }
  }
}

// One tensor 'a' with these fields and 4 bytes of data.
std::string one(const std::string& fields) {
  return safetensors_bytes(R"({"a":{)" + fields + "}}", "dddd");
}

const std::string kInvalid = ": must be valid JSON in UTF-8, and complete";
const std::string kNoObject = "a header that is no object: the header must be a JSON object";

TEST(SafetensorsMalformed, Lengths) {
  expect_refused({
      {"", "0 bytes: must be at least 8 bytes, the length of the header"},
      {"1234567", "7 bytes: must be at least 8 bytes, the length of the header"},
      {with_length(3, "{}"),
       "a header of 3 bytes: the header must end within the file of 10 bytes"},
      {with_length(100'000'001, "{}"),
       "a header of 100000001 bytes: the header must be at most 100000000 bytes"},
      {with_length(~std::uint64_t{0}, "{}"),
       "a header of 18446744073709551615 bytes: the header must be at most 100000000 bytes"},
      {with_length(0, ""), kNoObject},
  });
}

TEST(SafetensorsMalformed, Json) {
  expect_refused({
      {safetensors_bytes("[]", ""), kNoObject},
      {safetensors_bytes("null", ""), kNoObject},
      {safetensors_bytes(" {}", ""), kNoObject},
      {safetensors_bytes("\xef\xbb\xbf{}", ""), kNoObject},
      {safetensors_bytes("{", ""), "invalid JSON at byte 2" + kInvalid},
      {safetensors_bytes("{}x", ""), "invalid JSON at byte 3" + kInvalid},
      {safetensors_bytes(std::string("{}\0{", 4), ""), "a NUL byte at byte 3" + kInvalid},
      {safetensors_bytes("{\"\xff\":1}", ""), "invalid JSON at byte 3" + kInvalid},
      {safetensors_bytes("{\"\xc0\xaf\":1}", ""), "invalid JSON at byte 3" + kInvalid},
      {safetensors_bytes(R"({"\ud800":1})", ""), "invalid JSON at byte 9" + kInvalid},
      {safetensors_bytes("{/**/}", ""), "invalid JSON at byte 2" + kInvalid},
      {one(R"("dtype":"I32","shape":[1e999],"data_offsets":[0,4])"),
       "a number that does not fit at byte 34: numbers must be finite"},
  });
}

TEST(SafetensorsMalformed, DuplicateKeys) {
  const std::string entry = R"("a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]})";
  const std::string rule = ": a key may appear once in an object";
  expect_refused({
      {safetensors_bytes("{" + entry + "," + entry + "}", "dddd"), "the key 'a' twice" + rule},
      {safetensors_bytes(
           R"({"\u0061":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)" + entry + "}", "dddd"),
       "the key 'a' twice" + rule},
      {one(R"("dtype":"I32","dtype":"F32","shape":[1],"data_offsets":[0,4])"),
       "the key 'dtype' twice" + rule},
      {safetensors_bytes(R"({"__metadata__":{"k":"1","k":"2"}})", ""), "the key 'k' twice" + rule},
      {safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", ""),
       "the key '__metadata__' twice" + rule},
  });
}

TEST(SafetensorsMalformed, FieldsMissingOrOfAnotherType) {
  const std::string needs = ": a tensor needs dtype, shape and data_offsets";
  const std::string number = ": sizes and offsets must be whole numbers from 0 to 2^63 - 1";
  const std::string no_list =
      "tensor 'a' has a shape that is no list of numbers: shape must be a list of whole numbers";
  const std::string no_pair =
      "tensor 'a' has data_offsets that are no list of numbers: data_offsets must be [begin, end]";
  expect_refused({
      {safetensors_bytes(R"({"a":1})", ""),
       "tensor 'a' is no object: each entry of the header must be a JSON object"},
      {safetensors_bytes(R"({"a":[]})", ""),
       "tensor 'a' is no object: each entry of the header must be a JSON object"},
      {one(""), "tensor 'a' has no dtype" + needs},
      {one(R"("dtype":"I32","data_offsets":[0,4])"), "tensor 'a' has no shape" + needs},
      {one(R"("dtype":"I32","shape":[1])"), "tensor 'a' has no data_offsets" + needs},
      {one(R"("dtype":"I32","shape":[1],"data_offsets":[0,4],"x":1)"),
       "tensor 'a' has the unknown field 'x': a tensor has dtype, shape and data_offsets only"},
      {one(R"("dtype":7,"shape":[1],"data_offsets":[0,4])"),
       "tensor 'a' has a dtype that is no string: dtype must be a string"},
      {one(R"("dtype":["I32"],"shape":[1],"data_offsets":[0,4])"),
       "tensor 'a' has a dtype that is no string: dtype must be a string"},
      {one(R"("dtype":"I32","shape":1,"data_offsets":[0,4])"), no_list},
      {one(R"("dtype":"I32","shape":{"0":1},"data_offsets":[0,4])"), no_list},
      {one(R"("dtype":"I32","shape":["1"],"data_offsets":[0,4])"), no_list},
      {one(R"("dtype":"I32","shape":[[1]],"data_offsets":[0,4])"), no_list},
      {one(R"("dtype":"I32","shape":[true],"data_offsets":[0,4])"), no_list},
      {one(R"("dtype":"I32","shape":null,"data_offsets":[0,4])"), no_list},
      {one(R"("dtype":"I32","shape":[1],"data_offsets":"0,4")"), no_pair},
      {one(R"("dtype":"I32","shape":[1],"data_offsets":[0,null])"), no_pair},
      {one(R"("dtype":"I32","shape":[1],"data_offsets":[0])"),
       "tensor 'a' has 1 data_offsets: data_offsets must be [begin, end]"},
      {one(R"("dtype":"I32","shape":[1],"data_offsets":[0,4,4])"),
       "tensor 'a' has more than 2 data_offsets: data_offsets must be [begin, end]"},
      {one(R"("dtype":"I32","shape":[-1],"data_offsets":[0,4])"),
       "tensor 'a' has the size '-1'" + number},
      {one(R"("dtype":"I32","shape":[1.0],"data_offsets":[0,4])"),
       "tensor 'a' has the size '1.0'" + number},
      {one(R"("dtype":"I32","shape":[9223372036854775808],"data_offsets":[0,4])"),
       "tensor 'a' has the size '9223372036854775808'" + number},
      {one(R"("dtype":"I32","shape":[1],"data_offsets":[-4,4])"),
       "tensor 'a' has the offset '-4'" + number},
      {one(R"("dtype":"I32","shape":[1],"data_offsets":[0,18446744073709551617])"),
       "tensor 'a' has the offset '18446744073709551617'" + number},
      {one(R"("dtype":"I32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"),
       "tensor 'a' has more than 16 dimensions: must have at most 16"},
      {safetensors_bytes(R"({"__metadata__":3})", ""),
       "__metadata__ is no object: each entry of the header must be a JSON object"},
      {safetensors_bytes(R"({"__metadata__":{"k":1}})", ""),
       "__metadata__ has a value that is no string under 'k': metadata must be strings"},
      {safetensors_bytes(R"({"__metadata__":{"k":{}}})", ""),
       "__metadata__ has a value that is no string under 'k': metadata must be strings"},
      {safetensors_bytes(R"({"a":)" + std::string(100000, '['), ""),
       "tensor 'a' is no object: each entry of the header must be a JSON object"},
  });
}

TEST(SafetensorsMalformed, OffsetsAndSizes) {
  expect_refused({
      {one(R"("dtype":"I32","shape":[1],"data_offsets":[4,0])"),
       "tensor 'a' at [4,0]: begin must not be above end"},
      {one(R"("dtype":"I32","shape":[2],"data_offsets":[0,8])"),
       "tensor 'a' at [0,8]: must end within the 4 bytes of data"},
      {one(R"("dtype":"I32","shape":[2],"data_offsets":[0,4])"),
       "tensor 'a', I32 [2], in 4 bytes: dtype x shape needs 8 bytes"},
      {one(R"("dtype":"BF16","shape":[],"data_offsets":[0,4])"),
       "tensor 'a', BF16 [], in 4 bytes: dtype x shape needs 2 bytes"},
      {one(R"("dtype":"F4","shape":[9],"data_offsets":[0,4])"),
       "tensor 'a', F4 [9], in 4 bytes: dtype x shape needs 4 bytes and a part"},
      {one(R"("dtype":"I32","shape":[4294967296,4294967296],"data_offsets":[0,4])"),
       "tensor 'a' of shape [4294967296,4294967296]: its number of elements must fit 63 bits"},
      {one(R"("dtype":"I32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"),
       "tensor 'a' of shape [4294967296,4294967296,0]: its number of elements must fit 63 bits"},
      // 2^59 elements of 32 bits are 2^64 bits: counted in 64 bits they would be none.
      {one(R"("dtype":"I32","shape":[576460752303423488],"data_offsets":[0,0])"),
       "tensor 'a', I32 [576460752303423488], in 0 bytes: dtype x shape needs more than 64 bits "
       "can count"},
  });
}

TEST(SafetensorsMalformed, OverlapsHolesAndTrailingBytes) {
  const auto entry = [](const std::string& name, int begin, int end) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) +
           R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  const auto file = [](const std::string& entries) {
    return safetensors_bytes("{" + entries + "}", "12345678");
  };
  const std::string shared = " overlaps another: tensors must not share bytes";
  const std::string holes = ": tensors must cover the data without holes";
  expect_refused({
      {file(entry("a", 0, 5) + "," + entry("b", 4, 8)), "tensor 'b' at [4,8]" + shared},
      {file(entry("b", 4, 8) + "," + entry("a", 0, 5)), "tensor 'b' at [4,8]" + shared},
      {file(entry("a", 0, 8) + "," + entry("b", 0, 8)).substr(0), "tensor 'b' at [0,8]" + shared},
      {file(entry("a", 0, 8) + "," + entry("b", 2, 3)), "tensor 'b' at [2,3]" + shared},
      {file(entry("a", 0, 8) + "," + entry("b", 3, 3)), "tensor 'b' at [3,3]" + shared},
      {file(entry("a", 1, 8)), "a hole of 1 bytes before tensor 'a'" + holes},
      {file(entry("a", 0, 3) + "," + entry("b", 5, 8)),
       "a hole of 2 bytes before tensor 'b'" + holes},
      {file(entry("a", 0, 4)),
       "4 bytes after the last tensor: the file must end with its last "
       "tensor"},
      {file(""), "8 bytes after the last tensor: the file must end with its last tensor"},
  });
}

TEST(SafetensorsMalformed, EveryTruncationIsRefused) {
  const std::string whole =
      safetensors_bytes(R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  ASSERT_TRUE(parse_safetensors(bytes_of(whole), "m"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto file = parse_safetensors(bytes_of(std::string_view(whole).substr(0, length)), "m");
    ASSERT_FALSE(file) << length;
    EXPECT_EQ(file.error().code(), Code::kBadFile) << length;
  }
}

TEST(SafetensorsMalformed, FilesAboveTheLimitAreRefused) {
  const TempFolder folder;
  const std::string bytes = safetensors_bytes("{}", "");
  put(folder.file("t"), bytes);
  EXPECT_TRUE(read_safetensors(folder.file("t"), {.max_file_bytes = 10}));
  EXPECT_EQ(read_safetensors(folder.file("t"), {.max_file_bytes = 9}).error().message(),
            "bad_file: " + folder.file("t") + " = 10 bytes: must be at most 9 bytes");
  EXPECT_EQ(parse_safetensors(bytes_of(bytes), "m", {.max_file_bytes = 9}).error().message(),
            "bad_file: m = 10 bytes: must be at most 9 bytes");
  EXPECT_EQ(read_safetensors(folder.path()).error().value(), "not a regular file");
}

// A message stays one line of bounded length whatever the names are.
TEST(SafetensorsMalformed, LongAndOddNamesGiveOneShortLine) {
  const std::string bytes =
      safetensors_bytes("{\"" + std::string(5000, 'n') + R"(\n\u0000":{}})", "");
  const std::string message = parse_safetensors(bytes_of(bytes), "m").error().message();
  EXPECT_LT(message.size(), 300U);
  const std::string odd =
      parse_safetensors(bytes_of(safetensors_bytes(R"({"x\ny\u0000":{}})", "")), "m")
          .error()
          .message();
  EXPECT_EQ(odd,
            "bad_file: m = tensor 'x?y?' has no dtype: a tensor needs dtype, shape and "
            "data_offsets");
}

}  // namespace
}  // namespace mok::io
