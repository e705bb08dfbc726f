// validate.hpp: every rule that a case must keep, checked before any work.
#pragma once

#include <string>
#include <string_view>

#include "cli/case.hpp"
#include "cli/names.hpp"
#include "mok/status.hpp"

namespace mok::cli {

inline constexpr std::int64_t kMostRanks = 65535;
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;  // memory is the real limit
inline constexpr std::int64_t kMostLayers = std::int64_t{1} << 20;   // a part of a stream's number
inline constexpr NumberRule kRanksRule{1, kMostRanks, 1};
inline constexpr NumberRule kTokensRule{0, kLargestSize, 1};
inline constexpr NumberRule kMatrixRule{8, kLargestSize, 8};
inline constexpr NumberRule kSharedRule{0, kLargestSize, 8};
inline constexpr NumberRule kExpertsRule{1, std::int64_t{1} << 20, 1};
inline constexpr NumberRule kTopkRule{1, 32, 1};
inline constexpr NumberRule kLayersRule{1, kMostLayers, 1};
inline constexpr NumberRule kWorkersRule{1, 1024, 1};
inline constexpr NumberRule kDeadlineRule{1, std::int64_t{1} << 31, 1};
inline constexpr NumberRule kSavedRowsRule{0, kLargestSize, 64};
[[nodiscard]] NumberRule ring_rows_rule();

// Arguments are named as flags. Sizes and options one by one, then against each other, then the
// engine.
[[nodiscard]] Status validate_case(const Case& description);
// What the library itself refuses: shapes whose counts leave its words, for one.
[[nodiscard]] Status library_rules(const Case& description);

// The library names fields ("hidden"), the user knows flags ("--hidden").
[[nodiscard]] std::string flag_of_field(std::string_view field);
[[nodiscard]] Status with_flag_name(const Status& status);

}  // namespace mok::cli
