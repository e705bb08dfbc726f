// file_test.cpp: reading and atomic writing of files, and their typed failures.
#include "io/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <vector>

#include "test_files.hpp"

namespace mok::io {
namespace {

using testing_files::bytes_of;
using testing_files::get;
using testing_files::put;
using testing_files::TempFolder;

Status write_text(const std::string& path, std::string_view text) {
  const std::array pieces{bytes_of(text)};
  return write_file_atomically(path, pieces);
}

TEST(File, RoundTripsPiecesInOrder) {
  const TempFolder folder;
  const std::array pieces{bytes_of("ab"), bytes_of(""), bytes_of("cde")};
  ASSERT_TRUE(write_file_atomically(folder.file("f"), pieces).ok());
  const Result<AlignedBytes> content = read_whole_file(folder.file("f"), 5);
  ASSERT_TRUE(content) << content.error().message();
  EXPECT_EQ(as_text(content->bytes()), "abcde");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(content->bytes().data()) % 64, 0U);
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(File, RefusesWhatCannotBeRead) {
  const TempFolder folder;
  put(folder.file("six"), "123456");
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  struct Case {
    std::string path;
    std::string message;
  };
  const std::vector<Case> cases{
      {folder.file("none"),
       " = open failed: No such file or directory: must be a file that can be read or written"},
      {folder.path(), " = not a regular file: must be a regular file"},
      {folder.file("pipe"), " = not a regular file: must be a regular file"},
      {"/dev/zero", " = not a regular file: must be a regular file"},
      {folder.file("six"), " = 6 bytes: must be at most 5 bytes"},
  };
  for (const Case& c : cases) {
    const Result<AlignedBytes> content = read_whole_file(c.path, 5);
    ASSERT_FALSE(content) << c.path;
    EXPECT_EQ(content.error().code(), Code::kBadFile);
    EXPECT_EQ(content.error().message(), "bad_file: " + c.path + c.message);
  }
}

TEST(File, ReadBeyondTheEndIsRefused) {
  const TempFolder folder;
  put(folder.file("f"), "1234");
  const Result<InputFile> file = InputFile::open(folder.file("f"), 100);
  ASSERT_TRUE(file);
  std::array<std::byte, 3> out{};
  const Status status = file->read_at(2, out);
  EXPECT_EQ(status.message(), "bad_file: " + folder.file("f") +
                                  " = end of file at byte 4: must not shrink while it is read");
}

TEST(File, AllocationAboveTheMachineIsRefused) {
  const Result<AlignedBytes> memory = AlignedBytes::allocate(std::uint64_t{1} << 60);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code(), Code::kEnvironment);
  EXPECT_EQ(memory.error().value(), "1152921504606846976 bytes");
  EXPECT_TRUE(AlignedBytes::allocate(0));
}

TEST(File, WriteReplacesThroughLinkAndKeepsNoTemporary) {
  const TempFolder folder;
  put(folder.file("real"), "old");
  std::filesystem::create_symlink(folder.file("real"), folder.file("link"));
  ASSERT_TRUE(write_text(folder.file("link"), "new").ok());
  EXPECT_EQ(get(folder.file("real")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(folder.num_entries(), 2);
}

TEST(File, RefusesWhatCannotBeWritten) {
  const TempFolder folder;
  std::filesystem::create_symlink(folder.file("nowhere"), folder.file("dangling"));
  put(folder.file("plain"), "");
  struct Case {
    std::string path;
    std::string value;
  };
  const std::vector<Case> cases{
      {folder.file("no/such/folder"), "open for writing failed: No such file or directory"},
      {folder.file("plain/below"), "open for writing failed: Not a directory"},
      {folder.path(), "not a regular file"},
      {"/dev/null", "not a regular file"},
      {"", "an empty path"},
      {folder.file("dangling"), "following the link failed: No such file or directory"},
      {folder.file(std::string(300, 'n')), "open for writing failed: File name too long"},
  };
  for (const Case& c : cases) {
    const Status status = write_text(c.path, "x");
    EXPECT_EQ(status.code(), Code::kBadFile) << c.path;
    EXPECT_EQ(status.argument(), c.path);
    EXPECT_EQ(status.value(), c.value);
    EXPECT_FALSE(status.rule().empty());
  }
}

// A full disk, imitated by the process's limit on the size of a file.
TEST(File, FailedWriteKeepsTheOldFileAndNoTemporary) {
  const TempFolder folder;
  put(folder.file("f"), "old");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = before;
  limit.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = write_text(folder.file("f"), std::string(5000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), Code::kEnvironment);
  EXPECT_EQ(status.value(), "write failed: File too large");
  EXPECT_EQ(get(folder.file("f")), "old");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(File, QuotesAreCutBetweenCharacters) {
  EXPECT_EQ(in_quotes("a"), "'a'");
  EXPECT_EQ(in_quotes(std::string(80, 'a')), "'" + std::string(80, 'a') + "'");
  EXPECT_EQ(in_quotes(std::string(81, 'a')), "'" + std::string(80, 'a') + "...'");
  // A character of two bytes across the border goes as a whole.
  EXPECT_EQ(in_quotes(std::string(79, 'a') + "\xc3\xa4"), "'" + std::string(79, 'a') + "...'");
}

}  // namespace
}  // namespace mok::io
