// status_only.cpp: the smallest consumer: one public header, one function of the archive.
#include <cstdio>

#include <mok/status.hpp>

int main() {
  const mok::Status status =
      mok::Status::bad_argument("topk", "9", "at most the number of experts");
  std::puts(status.message().c_str());
  return mok::exit_status(status.code()) == 2 ? 0 : 1;
}
