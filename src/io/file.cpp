// file.cpp: reading at an offset, atomic writing (POSIX).
#include "io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace mok::io {

namespace {

// The kernel transfers at most 2 GiB - 4 KiB a call; smaller steps also bound an interruption.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;

// strerror() is not thread-safe; the generic category is.
std::string error_text(int error) {
  return std::generic_category().message(error);
}

// Full disks and exhausted tables are the machine's failure, the rest is about this path.
Status file_error(const std::string& path, const char* action, int error) {
  const std::string value = std::string{action} + " failed: " + error_text(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case EROFS:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return Status::environment(path, value, "free the resource or use another place");
    default: return Status::bad_file(path, value, "must be a file that can be read or written");
  }
}

int open_retrying(const char* path, int flags, mode_t mode) {
  int descriptor = -1;
  do {
    descriptor = ::open(path, flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

Status write_all(int descriptor, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(descriptor, bytes.data(), std::min(bytes.size(), kMaxTransferBytes));
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return file_error(path, "write", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status write_pieces(int descriptor, const std::string& path,
                    std::span<const std::span<const std::byte>> pieces) {
  for (const std::span<const std::byte> piece : pieces) {
    if (Status status = write_all(descriptor, path, piece); !status.ok()) {
      return status;
    }
  }
  if (::fsync(descriptor) != 0) {
    return file_error(path, "fsync", errno);
  }
  return {};
}

// The file to replace: `path` itself, or what it links to.
Result<std::string> resolve_target(const std::string& path) {
  std::error_code error;
  if (path.empty()) {
    return failure(Status::bad_file(path, "an empty path", "must name a file"));
  }
  std::string target = path;
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) {
    target = std::filesystem::canonical(path, error).string();
    if (error) {
      return failure(file_error(path, "following the link", error.value()));
    }
  }
  const std::filesystem::file_status status = std::filesystem::status(target, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return failure(
        Status::bad_file(path, "not a regular file", "only a regular file is ever replaced"));
  }
  return target;
}

}  // namespace

Result<AlignedBytes> AlignedBytes::allocate(std::uint64_t num_bytes) {
  AlignedBytes result;
  if (num_bytes == 0) {
    return result;
  }
  const auto physical_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (num_bytes < physical_bytes) {
    const std::uint64_t rounded = (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
    result.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  }
  if (!result.data_) {
    return failure(Status::environment(
        "memory", std::to_string(num_bytes) + " bytes",
        "this machine has " + std::to_string(physical_bytes) + " bytes: use a smaller file"));
  }
  result.size_ = num_bytes;
  return result;
}

Result<InputFile> InputFile::open(const std::string& path, std::uint64_t max_bytes) {
  // Without O_NONBLOCK the open of a pipe would wait for its writer.
  const int descriptor = open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK, 0);
  if (descriptor < 0) {
    return failure(file_error(path, "open", errno));
  }
  InputFile file(path, descriptor, 0);
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) {
    return failure(file_error(path, "stat", errno));
  }
  if (!S_ISREG(facts.st_mode)) {
    return failure(Status::bad_file(path, "not a regular file", "must be a regular file"));
  }
  file.size_bytes_ = static_cast<std::uint64_t>(facts.st_size);
  if (file.size_bytes_ > max_bytes) {
    return failure(Status::bad_file(path, std::to_string(file.size_bytes_) + " bytes",
                                    "must be at most " + std::to_string(max_bytes) + " bytes"));
  }
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status InputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), std::min(out.size(), kMaxTransferBytes),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return file_error(path_, "read", errno);
    }
    if (got == 0) {
      return Status::bad_file(path_, "end of file at byte " + std::to_string(offset),
                              "must not shrink while it is read");
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<AlignedBytes> read_whole_file(const std::string& path, std::uint64_t max_bytes) {
  Result<InputFile> file = InputFile::open(path, max_bytes);
  if (!file) {
    return failure(file.error());
  }
  Result<AlignedBytes> content = AlignedBytes::allocate(file->size_bytes());
  if (!content) {
    return content;
  }
  if (Status status = file->read_at(0, content->bytes()); !status.ok()) {
    return failure(std::move(status));
  }
  return content;
}

Status write_file_atomically(const std::string& path,
                             std::span<const std::span<const std::byte>> pieces) {
  Result<std::string> target = resolve_target(path);
  if (!target) {
    return target.error();
  }
  // Distinct for every writer: process number and a count within the process.
  static std::atomic<unsigned> num_writes{0};
  const std::string temporary = *target + ".tmp." + std::to_string(::getpid()) + "." +
                                std::to_string(num_writes.fetch_add(1, std::memory_order_relaxed));
  const int descriptor = open_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (descriptor < 0) {
    return file_error(path, "open for writing", errno);
  }
  Status status = write_pieces(descriptor, path, pieces);
  if (::close(descriptor) != 0 && status.ok()) {
    status = file_error(path, "close", errno);
  }
  if (status.ok() && ::rename(temporary.c_str(), target->c_str()) != 0) {
    status = file_error(path, "rename", errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
  }
  return status;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxBytes = 80;
  if (text.size() <= kMaxBytes) {
    return "'" + std::string{text} + "'";
  }
  std::size_t end = kMaxBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
    --end;  // not in the middle of a character
  }
  return "'" + std::string{text.substr(0, end)} + "...'";
}

}  // namespace mok::io
