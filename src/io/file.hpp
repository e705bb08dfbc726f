// file.hpp: bytes from and to files, with every failure as a typed Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mok/status.hpp"

namespace mok::io {

// Memory for file contents and tensors, aligned for any vector load. Move-only.
class AlignedBytes {
 public:
  static constexpr std::size_t kAlignment = 64;

  AlignedBytes() = default;
  // Refuses sizes above the machine's memory (Code::kEnvironment): a sparse file can claim any
  // size.
  static Result<AlignedBytes> allocate(std::uint64_t num_bytes);

  [[nodiscard]] std::span<std::byte> bytes() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// An open regular file of a size known to be at most the caller's limit. Closes itself.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path, std::uint64_t max_bytes);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  // Fills `out` from `offset`; a file that ends early (it shrank meanwhile) is kBadFile.
  [[nodiscard]] Status read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  InputFile(std::string path, int descriptor, std::uint64_t size_bytes)
      : path_(std::move(path)), descriptor_(descriptor), size_bytes_(size_bytes) {}
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_bytes_ = 0;
};

Result<AlignedBytes> read_whole_file(const std::string& path, std::uint64_t max_bytes);

// Writes the pieces one after the other into a temporary file beside `path`, syncs it and renames
// it: `path` holds either what it held before or all of the new bytes. A symbolic link is followed;
// anything but a regular file at `path` (a device, a directory) is refused.
[[nodiscard]] Status write_file_atomically(const std::string& path,
                                           std::span<const std::span<const std::byte>> pieces);

// Text from a file as part of a message: in quotes, at most 80 bytes, cut between UTF-8 characters.
std::string in_quotes(std::string_view text);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace mok::io
