// place_history.hpp: who writes and reads each place of memory, version by version, and the check that
// every place is read after it is written and overwritten after its last use, in every execution.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "support/happens_before.hpp"

namespace mok::testing {

enum class Buffer : std::uint32_t {
  kStaged,
  kX,
  kDy,
  kRoute,
  kGateUp,
  kHidden,
  kPartials,
  kOut,
  kLanding,
  kSpill,
  kSharedLogit,
  kSharedHidden,
  kSharedPartials,
  kSharedOut,
  kSharedDz,
  kNumBuffers
};

class PlaceHistory {
 public:
  explicit PlaceHistory(const HappensBefore& order) : order_(order) {}

  // Accesses of a node of the happens-before relation.
  void write(std::uint32_t rank, Buffer buffer, std::uint64_t row, std::uint32_t col,
             std::uint64_t version, std::size_t node) {
    places_[{rank, buffer, row, col}][version].writers.push_back(node);
  }
  void read(std::uint32_t rank, Buffer buffer, std::uint64_t row, std::uint32_t col,
            std::uint64_t version, std::size_t node) {
    places_[{rank, buffer, row, col}][version].readers.push_back(node);
  }

  // Accesses that some execution gets wrong.
  [[nodiscard]] std::vector<std::string> violations() const {
    std::vector<std::string> bad;
    for (const auto& [place, versions] : places_) {
      const Version* last = nullptr;
      for (const auto& [number, version] : versions) {
        check(place, version, last, bad);
        last = &version;
      }
    }
    return bad;
  }
  [[nodiscard]] std::size_t num_places() const { return places_.size(); }
  // Contents that replaced others, per buffer: how much of the reuse the worlds reach.
  [[nodiscard]] std::vector<std::size_t> reuses() const {
    std::vector<std::size_t> count(static_cast<std::size_t>(Buffer::kNumBuffers));
    for (const auto& [place, versions] : places_) {
      count[static_cast<std::size_t>(std::get<1>(place))] += versions.size() - 1;
    }
    return count;
  }

 private:
  using Place =
      std::tuple<std::uint32_t, Buffer, std::uint64_t, std::uint32_t>;  // rank, row, column
  struct Version {
    std::vector<std::size_t> writers, readers;
  };

  void check(const Place& place, const Version& version, const Version* last,
             std::vector<std::string>& bad) const {
    const auto complain = [&](const char* what) {
      bad.push_back("rank " + std::to_string(std::get<0>(place)) + " buffer " +
                    std::to_string(static_cast<int>(std::get<1>(place))) + " row " +
                    std::to_string(std::get<2>(place)) + ": " + what);
    };
    if (version.writers.empty()) {
      complain("read but never written");
    }
    for (const std::size_t writer : version.writers) {
      for (const std::size_t reader : version.readers) {
        if (writer != reader && !order_.before(writer, reader)) {
          complain("may be read before it is written");
        }
      }
      for (std::size_t i = 0; last != nullptr && i < last->readers.size() + last->writers.size();
           ++i) {
        const std::size_t user =
            i < last->readers.size() ? last->readers[i] : last->writers[i - last->readers.size()];
        if (user != writer && !order_.before(user, writer)) {
          complain("may be overwritten before its last use");
        }
      }
    }
  }

  const HappensBefore& order_;
  std::map<Place, std::map<std::uint64_t, Version>> places_;
};

}  // namespace mok::testing
