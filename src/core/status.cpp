// status.cpp: texts of the typed errors.
#include "mok/status.hpp"

namespace mok {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kBadArgument: return "bad_argument";
    case Code::kBadFile: return "bad_file";
    case Code::kEnvironment: return "environment";
    case Code::kTimeout: return "timeout";
    case Code::kPeerLost: return "peer_lost";
    case Code::kCallMismatch: return "call_mismatch";
    case Code::kAborted: return "aborted";
    case Code::kPoisoned: return "poisoned";
    case Code::kCheckFailed: return "check_failed";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

int exit_status(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kCheckFailed:
    case Code::kInternal: return 1;
    case Code::kBadArgument:
    case Code::kBadFile:
    case Code::kEnvironment: return 2;
    case Code::kTimeout:
    case Code::kPeerLost:
    case Code::kCallMismatch:
    case Code::kAborted:
    case Code::kPoisoned: return 3;
  }
  return 1;
}

namespace {

// Values come from users and files: a line break or control character must not split the message.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7f) {
      c = '?';
    }
  }
  return text;
}

}  // namespace

Status Status::bad_argument(std::string argument, std::string value, std::string rule) {
  Status status;
  status.code_ = Code::kBadArgument;
  status.argument_ = one_line(std::move(argument));
  status.value_ = one_line(std::move(value));
  status.rule_ = one_line(std::move(rule));
  return status;
}

Status Status::bad_file(std::string path, std::string value, std::string rule) {
  Status status = bad_argument(std::move(path), std::move(value), std::move(rule));
  status.code_ = Code::kBadFile;
  return status;
}

Status Status::environment(std::string what, std::string value, std::string way_out) {
  Status status = bad_argument(std::move(what), std::move(value), std::move(way_out));
  status.code_ = Code::kEnvironment;
  return status;
}

Status Status::check_failed(std::string what, std::string value, std::string rule) {
  Status status = bad_argument(std::move(what), std::move(value), std::move(rule));
  status.code_ = Code::kCheckFailed;
  return status;
}

Status Status::wait_failed(Code code, WaitFacts facts) {
  Status status;
  status.code_ = code;
  status.wait_ = std::move(facts);
  return status;
}

Status Status::poisoned(const Status& first) {
  Status status = first;
  status.code_ = Code::kPoisoned;
  return status;
}

std::string Status::message() const {
  if (ok()) {
    return "ok";
  }
  std::string text{code_name(code_)};
  if (wait_.rank >= 0 || !wait_.site.empty()) {
    text += ": rank " + std::to_string(wait_.rank) + " at " + wait_.site;
    if (code_ != Code::kCallMismatch) {
      text +=
          ", expected " + std::to_string(wait_.expected) + ", seen " + std::to_string(wait_.seen);
    }
    text += ", call " + std::to_string(wait_.epoch) + ", reported by rank " +
            std::to_string(wait_.reporter);
    return text;
  }
  text += ": " + argument_;
  if (!value_.empty()) {
    text += " = " + value_;
  }
  if (!rule_.empty()) {
    text += ": " + rule_;
  }
  return text;
}

}  // namespace mok
