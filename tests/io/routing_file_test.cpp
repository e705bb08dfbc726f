// routing_file_test.cpp: recorded routing files, good ones and every refusal with its message.
#include "io/routing_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "test_files.hpp"

namespace mok::io {
namespace {

using testing_files::bytes_of;
using testing_files::put;
using testing_files::TempFolder;

const std::string kHeader = R"({"model":"m/x","layer":3,"num_experts":8,"top_k":2})"
                            "\n";
const std::string kToken = R"({"ids":[1,7],"weights":[0.75,0.25]})"
                           "\n";

Result<RecordedRouting> parse(const std::string& text) {
  return parse_routing(bytes_of(text), "r.jsonl");
}

TEST(RoutingFile, ReadsHeaderAndTokens) {
  const TempFolder folder;
  put(folder.file("r.jsonl"),
      kHeader + kToken + R"( { "weights" : [ -1 , 1e-3 ] , "ids" : [ -1 , 0 ] } )" + "\r\n");
  const Result<RecordedRouting> routing = read_routing_file(folder.file("r.jsonl"));
  ASSERT_TRUE(routing) << routing.error().message();
  EXPECT_EQ(routing->model, "m/x");
  EXPECT_EQ(routing->layer, 3);
  EXPECT_EQ(routing->num_experts, 8);
  EXPECT_EQ(routing->topk, 2);
  EXPECT_EQ(routing->num_tokens, 2);
  EXPECT_EQ(routing->ids, (std::vector<std::int32_t>{1, 7, -1, 0}));
  EXPECT_EQ(routing->weights, (std::vector<float>{0.75F, 0.25F, -1.0F, 1e-3F}));
}

TEST(RoutingFile, AcceptsWhatIsLegal) {
  EXPECT_TRUE(parse(kHeader + R"({"ids":[5,5],"weights":[0,0]})")) << "no last line break";
  EXPECT_TRUE(
      parse(R"({"model":"","layer":0,"num_experts":1048576,"top_k":1,"note":{"a":[1,null]},)"
            R"("x":true,"y":"z","w":1.5})"
            "\n"
            R"({"ids":[1048575],"weights":[3.4e38]})"
            "\n"))
      << "unknown header keys, the largest E";
}

struct BadCase {
  std::string text;
  std::string message;  // after the name
};

void expect_refused(const std::vector<BadCase>& cases) {
  for (const BadCase& c : cases) {
    const Result<RecordedRouting> routing = parse(c.text);
    ASSERT_FALSE(routing) << c.message;
    EXPECT_EQ(routing.error().code(), Code::kBadFile);
    EXPECT_EQ(routing.error().message(), "bad_file: r.jsonl = " + c.message);
  }
}

TEST(RoutingFile, RefusesBadHeaders) {
  const auto header = [](const std::string& fields) { return "{" + fields + "}\n" + kToken; };
  const std::string rest = R"("layer":3,"num_experts":8,"top_k":2)";
  const std::string rule_types =
      ": model must be a string; layer, num_experts and top_k whole numbers";
  expect_refused({
      {"", "an empty file: must have a header line and tokens"},
      {kHeader, "a header line only: must have at least one token"},
      {"\n" + kHeader, "line 1: invalid JSON at byte 1: must be valid JSON in UTF-8, and complete"},
      {"[1]\n", "line 1: no object: the header line must be a JSON object"},
      {"7\n", "line 1: no object: the header line must be a JSON object"},
      {"null\n", "line 1: no object: the header line must be a JSON object"},
      {header(rest),
       "line 1: no key 'model': the header must have model, layer, num_experts and top_k"},
      {header(R"("model":"m","num_experts":8,"top_k":2)"),
       "line 1: no key 'layer': the header must have model, layer, num_experts and top_k"},
      {header(R"("model":"m","layer":3,"top_k":2)"),
       "line 1: no key 'num_experts': the header must have model, layer, num_experts and top_k"},
      {header(R"("model":"m","layer":3,"num_experts":8)"),
       "line 1: no key 'top_k': the header must have model, layer, num_experts and top_k"},
      {header(R"("model":5,)" + rest), "line 1: model of another type" + rule_types},
      {header(R"("model":["m"],)" + rest), "line 1: model of another type" + rule_types},
      {header(R"("model":"m","layer":"3","num_experts":8,"top_k":2)"),
       "line 1: layer of another type" + rule_types},
      {header(R"("model":"m","layer":3,"num_experts":null,"top_k":2)"),
       "line 1: num_experts of another type" + rule_types},
      {header(R"("model":"m","layer":3,"num_experts":8,"top_k":{}})"),
       "line 1: top_k of another type" + rule_types},
      {header(R"("model":"m","layer":-1,"num_experts":8,"top_k":2)"),
       "line 1: layer '-1': layer must be a whole number from 0 to 2147483647"},
      {header(R"("model":"m","layer":1.5,"num_experts":8,"top_k":2)"),
       "line 1: layer '1.5': layer must be a whole number from 0 to 2147483647"},
      {header(R"("model":"m","layer":3,"num_experts":0,"top_k":2)"),
       "line 1: num_experts '0': num_experts must be a whole number from 1 to 1048576"},
      {header(R"("model":"m","layer":3,"num_experts":1048577,"top_k":2)"),
       "line 1: num_experts '1048577': num_experts must be a whole number from 1 to 1048576"},
      {header(R"("model":"m","layer":3,"num_experts":18446744073709551616,"top_k":2)"),
       "line 1: num_experts '18446744073709551616': num_experts must be a whole number from 1 to "
       "1048576"},
      {header(R"("model":"m","layer":3,"num_experts":8,"top_k":0)"),
       "line 1: top_k '0': top_k must be a whole number from 1 to 32"},
      {header(R"("model":"m","layer":3,"num_experts":64,"top_k":33)"),
       "line 1: top_k '33': top_k must be a whole number from 1 to 32"},
      {header(R"("model":"m","layer":3,"num_experts":2,"top_k":3)"),
       "line 1: top_k 3 with num_experts 2: top_k must not be above num_experts"},
      {header(R"("model":"m","model":"n",)" + rest),
       "line 1: the key 'model' twice: a key may appear once in an object"},
      {header(R"("model":"m","note":{"a":1,"a":2},)" + rest),
       "line 1: the key 'a' twice: a key may appear once in an object"},
      {header(R"("model":"m","note":)" + std::string(20, '[') + std::string(20, ']') + "," + rest),
       "line 1: nested deeper than 16 levels: nesting is limited to 16 levels"},
  });
}

TEST(RoutingFile, RefusesBadTokens) {
  const auto token = [](const std::string& line) { return kHeader + kToken + line + "\n"; };
  const std::string not_lists =
      "line 3: not ids and weights: a token must be an object with two lists of numbers, ids and "
      "weights";
  const std::string invalid = ": must be valid JSON in UTF-8, and complete";
  expect_refused({
      {kHeader + R"({"ids":[1,7],"weights":[0.75,0.)", "line 2: invalid JSON at byte 32" + invalid},
      {token(R"({"ids":[1,7],"weights":[0.75)"), "line 3: invalid JSON at byte 29" + invalid},
      {token(""), "line 3: invalid JSON at byte 1" + invalid},
      {token(R"({"ids":[1,7],"weights":[1,2]} x)"), "line 3: invalid JSON at byte 31" + invalid},
      {token(R"({"ids":[1,7],"weights":[NaN,1]})"), "line 3: invalid JSON at byte 25" + invalid},
      {token(std::string(R"({"ids":[1,7],"weights":[1,2]})") + '\0' + "rest"),
       "line 3: a NUL byte at byte 30" + invalid},
      {"\xef\xbb\xbf" + kHeader, "line 1: a byte order mark" + invalid},
      {token("{\"\xff\":1}"), "line 3: invalid JSON at byte 3" + invalid},
      {token("[]"), not_lists},
      {token("1"), not_lists},
      {token(R"({"ids":1,"weights":[1,2]})"), not_lists},
      {token(R"({"ids":{},"weights":[1,2]})"), not_lists},
      {token(R"({"ids":[[1],2],"weights":[1,2]})"), not_lists},
      {token(R"({"ids":["1",2],"weights":[1,2]})"), not_lists},
      {token(R"({"ids":[1,2],"weights":[1,null]})"), not_lists},
      {token(R"({"ids":[1,2]})"), "line 3: no key 'weights': a token must have ids and weights"},
      {token(R"({"weights":[1,2]})"), "line 3: no key 'ids': a token must have ids and weights"},
      {token("{}"), "line 3: no key 'ids': a token must have ids and weights"},
      {token(R"({"ids":[1],"weights":[1,2]})"),
       "line 3: 1 ids and 2 weights: must have top_k = 2 of each"},
      {token(R"({"ids":[1,2],"weights":[]})"),
       "line 3: 2 ids and 0 weights: must have top_k = 2 of each"},
      {token(R"({"ids":[1,2,3],"weights":[1,2]})"),
       "line 3: too many ids: must have top_k = 2 of each"},
      {token(R"({"ids":[1,2],"weights":[1,2,3]})"),
       "line 3: too many weights: must have top_k = 2 of each"},
      {token(R"({"ids":[1,8],"weights":[1,2]})"),
       "line 3: the id '8': ids must be whole numbers from -1 (no route) to 7"},
      {token(R"({"ids":[-2,1],"weights":[1,2]})"),
       "line 3: the id '-2': ids must be whole numbers from -1 (no route) to 7"},
      {token(R"({"ids":[4294967296,1],"weights":[1,2]})"),
       "line 3: the id '4294967296': ids must be whole numbers from -1 (no route) to 7"},
      {token(R"({"ids":[1.0,1],"weights":[1,2]})"),
       "line 3: the id '1.0': ids must be whole numbers from -1 (no route) to 7"},
      {token(R"({"ids":[1,2],"weights":[1e39,2]})"),
       "line 3: the weight '1e39': weights must be finite in binary32"},
      {token(R"({"ids":[1,2],"weights":[-3.5e38,2]})"),
       "line 3: the weight '-3.5e38': weights must be finite in binary32"},
      {token(R"({"ids":[1,2],"weights":[1e999,2]})"),
       "line 3: a number that does not fit at byte 29: numbers must be finite"},
      {token(R"({"ids":[1,2],"ids":[1,2],"weights":[1,2]})"),
       "line 3: the key 'ids' twice: a key may appear once in an object"},
      {token(R"({"ids":[1,2],"weights":[1,2],"extra":0})"),
       "line 3: the unknown key 'extra': a token has ids and weights only"},
  });
}

TEST(RoutingFile, RefusesLongLines) {
  std::string line = R"({"ids":[1,7],"weights":[0.75,0.25]})";
  line.resize(kMaxRoutingLineBytes, ' ');
  EXPECT_TRUE(parse(kHeader + line));
  expect_refused(
      {{kHeader + line + " \n", "line 2: 1048577 bytes: a line must be at most 1048576 bytes"}});
}

TEST(RoutingFile, RefusesMissingFile) {
  EXPECT_EQ(read_routing_file("/nonexistent/r.jsonl").error().message(),
            "bad_file: /nonexistent/r.jsonl = open failed: No such file or directory: must be a "
            "file that can be read or written");
}

TEST(RoutingFile, RepeatsAShortRecording) {
  const Result<RecordedRouting> routing =
      parse(kHeader + kToken + R"({"ids":[2,3],"weights":[0.5,0.5]})" + "\n" +
            R"({"ids":[4,5],"weights":[1,0]})");
  ASSERT_TRUE(routing);
  std::array<std::int32_t, 8> ids{};
  std::array<float, 8> weights{};
  ASSERT_TRUE(repeat_routing(*routing, 5, ids, weights).ok());
  EXPECT_EQ(ids, (std::array<std::int32_t, 8>{4, 5, 1, 7, 2, 3, 4, 5}));
  EXPECT_EQ(weights, (std::array<float, 8>{1, 0, 0.75F, 0.25F, 0.5F, 0.5F, 1, 0}));
  EXPECT_EQ(repeat_routing(*routing, -1, ids, weights).message(),
            "bad_argument: first_token = -1: must be at least 0");
  EXPECT_EQ(
      repeat_routing(*routing, 0, std::span(ids).first(3), std::span(weights).first(3)).message(),
      "bad_argument: ids and weights = 3 and 3 elements: both must be tokens x top_k");
}

}  // namespace
}  // namespace mok::io
