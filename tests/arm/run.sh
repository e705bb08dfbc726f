#!/usr/bin/env bash
# run.sh: the portable part for aarch64: cross-compiled, its tests run under qemu-user.
# The preset arm names which test folders run (by name); the report is build/log/arm.xml.
source "$(dirname "$0")/../../tools/common.sh"

configure arm
build arm mok_unit_tests
rm -f build/log/arm.xml
ctest --preset arm --output-junit "$project_dir/build/log/arm.xml"

# The scalar engine's bits are the same here and there: a difference means a compiler that fused a
# multiply-add, or C libraries whose exp rounds otherwise. Needs the release build.
native="build/$(release_preset)/mok_test_arm"
bits() { "$@" --gtest_brief=1 | grep '^bits '; }
if [[ -x $native ]]; then
  bits "$native" >build/log/bits_native.txt
  bits qemu-aarch64 build/arm/mok_test_arm >build/log/bits_arm.txt
  diff build/log/bits_native.txt build/log/bits_arm.txt
  echo "$(wc -l <build/log/bits_arm.txt) hashes of a layer are those of $(uname -m)"
else
  echo "bits not compared with $(uname -m): no $native"
fi
