// descriptor_test.cpp: bits of the wgmma descriptor, and that the layout which a kernel writes puts
// every element where the descriptor's addressing rules look for it. No GPU needed.
#include "cuda/mma/descriptor.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/mma/accumulator.hpp"

namespace mok::cuda::mma {
namespace {

TEST(Descriptor, FieldsMatchHandComputedBits) {
  struct Case {
    std::uint32_t address, leading, stride;
    std::uint64_t bits;
  };
  // address / 16 | leading / 16 << 16 | stride / 16 << 32, worked out by hand.
  const Case cases[] = {
      {0, 0, 0, 0},
      {0x10, 0, 0, 0x1},
      {0, 0x10, 0, 0x10000},
      {0, 0, 0x10, 0x100000000},
      {0x400, 1024, 128, 0x0000'0008'0040'0040},
      {0x2400, 4096, 128, 0x0000'0008'0100'0240},
      {0x400, 128, 1024, 0x0000'0040'0008'0040},
      {0x3FFF0, 0x3FFF0, 0x3FFF0, 0x0000'3FFF'3FFF'3FFF},
  };
  for (const Case& c : cases) {
    const CoreMatrixLayout layout{Major::kK, c.leading, c.stride};
    EXPECT_EQ(encode_descriptor(c.address, layout), c.bits) << std::hex << c.bits;
  }
}

TEST(Descriptor, AddressBitsAbove17AreDropped) {
  const CoreMatrixLayout layout{Major::kK, 128, 1024};
  EXPECT_EQ(encode_descriptor(0x01000400U, layout), encode_descriptor(0x400U, layout));
  EXPECT_EQ(encode_descriptor(0x00040000U, layout), encode_descriptor(0U, layout));
}

TEST(Descriptor, MajorIsNotInTheWord) {  // it is the instruction's transpose bit
  const CoreMatrixLayout k_major{Major::kK, 1024, 128};
  const CoreMatrixLayout mn_major{Major::kMn, 1024, 128};
  EXPECT_EQ(encode_descriptor(0x400, k_major), encode_descriptor(0x400, mn_major));
}

TEST(Descriptor, EncodableIsMultipleOf16Below2To18) {
  EXPECT_TRUE(is_encodable(0));
  EXPECT_TRUE(is_encodable(4096));
  EXPECT_TRUE(is_encodable(0x3FFF0));
  EXPECT_FALSE(is_encodable(8));
  EXPECT_FALSE(is_encodable(0x40000));
}

// The instruction as documented, from the descriptor's bits alone: for each k16 step it reads two
// core matrices along K and num_rows / 8 along the rows.
std::uint16_t element_read_by_wgmma(const std::vector<std::uint8_t>& shared,
                                    std::uint64_t descriptor, Major major, std::uint32_t row,
                                    std::uint32_t k_in_step) {
  const std::uint64_t start = (descriptor & 0x3FFF) * 16;
  const std::uint64_t leading = ((descriptor >> 16) & 0x3FFF) * 16;
  const std::uint64_t stride = ((descriptor >> 32) & 0x3FFF) * 16;
  std::uint64_t address = start;
  for (std::uint32_t core_row = 0; core_row < row / 8; ++core_row) {
    address += stride;
  }
  if (k_in_step >= 8) {
    address += leading;
  }
  const std::uint32_t row_in_core = row & 7U;
  const std::uint32_t k_in_core = k_in_step & 7U;
  address +=
      major == Major::kK ? 16 * row_in_core + 2 * k_in_core : 16 * k_in_core + 2 * row_in_core;
  std::uint16_t value = 0;
  std::memcpy(&value, shared.data() + address, sizeof(value));
  return value;
}

// Not a product of row and k, so that two swapped elements are noticed.
std::uint16_t mark(std::uint32_t row, std::uint32_t k) {
  return static_cast<std::uint16_t>(1 + row * 64 + k);
}

struct LayoutCase {
  const char* name;
  std::uint32_t num_rows;
  CoreMatrixLayout layout;
};

std::vector<LayoutCase> layout_cases() {
  std::vector<LayoutCase> cases;
  for (const Major major : {Major::kK, Major::kMn}) {
    for (const std::uint32_t num_rows : {64U, 128U, 256U}) {
      cases.push_back({"packed", num_rows, packed_layout(major, num_rows)});
      // The other order: the eight core matrices of 64 k lie together.
      cases.push_back(
          {"rows outermost", num_rows, {major, kCoreMatrixBytes, 8 * kCoreMatrixBytes}});
    }
  }
  return cases;
}

constexpr std::uint32_t kStageK = 64;

TEST(CoreMatrixLayout, EveryElementIsWhereWgmmaReadsIt) {
  constexpr std::uint32_t kBase = 0x400;
  for (const LayoutCase& c : layout_cases()) {
    SCOPED_TRACE(std::string(c.name) + ", rows " + std::to_string(c.num_rows) + ", major " +
                 std::to_string(static_cast<int>(c.layout.major)));
    std::vector<std::uint8_t> shared(kBase + c.num_rows * kStageK * 2, 0);
    for (std::uint32_t row = 0; row < c.num_rows; ++row) {
      for (std::uint32_t k = 0; k < kStageK; ++k) {
        const std::uint16_t value = mark(row, k);
        const std::size_t place = kBase + c.layout.offset(row, k);
        ASSERT_LE(place + 2, shared.size());
        std::memcpy(shared.data() + place, &value, sizeof(value));
      }
    }
    for (std::uint32_t step = 0; step < kStageK / kInstructionK; ++step) {
      const std::uint64_t descriptor =
          encode_descriptor(kBase + c.layout.offset(0, step * kInstructionK), c.layout);
      for (std::uint32_t row = 0; row < c.num_rows; ++row) {
        for (std::uint32_t k = 0; k < kInstructionK; ++k) {
          ASSERT_EQ(element_read_by_wgmma(shared, descriptor, c.layout.major, row, k),
                    mark(row, step * kInstructionK + k))
              << "row " << row << ", k " << k << ", step " << step;
        }
      }
    }
  }
}

TEST(CoreMatrixLayout, OffsetsAreDistinctAndWithoutGaps) {
  for (const LayoutCase& c : layout_cases()) {
    std::set<std::uint32_t> offsets;
    for (std::uint32_t row = 0; row < c.num_rows; ++row) {
      for (std::uint32_t k = 0; k < kStageK; ++k) {
        offsets.insert(c.layout.offset(row, k));
      }
    }
    EXPECT_EQ(offsets.size(), c.num_rows * kStageK);
    EXPECT_EQ(*offsets.begin(), 0U);
    EXPECT_EQ(*offsets.rbegin(), 2 * (c.num_rows * kStageK - 1));
  }
}

TEST(CoreMatrixLayout, PackedStepsStartAtEncodableAddresses) {
  for (const LayoutCase& c : layout_cases()) {
    EXPECT_TRUE(is_encodable(c.layout.leading_bytes));
    EXPECT_TRUE(is_encodable(c.layout.stride_bytes));
    for (std::uint32_t k = 0; k < kStageK; k += kInstructionK) {
      EXPECT_TRUE(is_encodable(c.layout.offset(0, k)));
    }
  }
}

TEST(CoreMatrixLayout, HandComputedOffsets) {
  const CoreMatrixLayout k_major = packed_layout(Major::kK, 64);
  EXPECT_EQ(k_major.leading_bytes, 1024U);
  EXPECT_EQ(k_major.offset(0, 1), 2U);
  EXPECT_EQ(k_major.offset(1, 0), 16U);
  EXPECT_EQ(k_major.offset(8, 0), 128U);
  EXPECT_EQ(k_major.offset(0, 8), 1024U);
  EXPECT_EQ(k_major.offset(13, 21), 128U + 2 * 1024U + 5 * 16U + 5 * 2U);
  const CoreMatrixLayout mn_major = packed_layout(Major::kMn, 256);
  EXPECT_EQ(mn_major.leading_bytes, 4096U);
  EXPECT_EQ(mn_major.offset(1, 0), 2U);
  EXPECT_EQ(mn_major.offset(0, 1), 16U);
  EXPECT_EQ(mn_major.offset(8, 0), 128U);
  EXPECT_EQ(mn_major.offset(0, 8), 4096U);
  EXPECT_EQ(mn_major.offset(250, 63), 31 * 128U + 7 * 4096U + 7 * 16U + 2 * 2U);
}

TEST(Accumulator, EveryElementHasOneRegister) {
  for (const int n : {64, 128, 256}) {
    std::set<std::pair<int, int>> places;
    for (int thread = 0; thread < 128; ++thread) {
      for (int index = 0; index < n / 2; ++index) {
        const AccumulatorPlace place = accumulator_place(thread, index);
        ASSERT_TRUE(place.row >= 0 && place.row < 64 && place.column >= 0 && place.column < n);
        places.emplace(place.row, place.column);
      }
    }
    EXPECT_EQ(places.size(), static_cast<std::size_t>(64 * n));
  }
}

TEST(Accumulator, HandComputedPlaces) {
  EXPECT_EQ(accumulator_place(0, 0), (AccumulatorPlace{0, 0}));
  EXPECT_EQ(accumulator_place(0, 1), (AccumulatorPlace{0, 1}));
  EXPECT_EQ(accumulator_place(0, 2), (AccumulatorPlace{8, 0}));
  EXPECT_EQ(accumulator_place(0, 4), (AccumulatorPlace{0, 8}));
  EXPECT_EQ(accumulator_place(1, 0), (AccumulatorPlace{0, 2}));
  EXPECT_EQ(accumulator_place(4, 0), (AccumulatorPlace{1, 0}));
  EXPECT_EQ(accumulator_place(127, 127), (AccumulatorPlace{63, 255}));
}

}  // namespace
}  // namespace mok::cuda::mma
