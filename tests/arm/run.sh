#!/usr/bin/env bash
# run.sh: the portable part for aarch64: cross-compiled, its tests run under qemu-user.
# The preset arm names which test folders run (by name); the report is build/log/arm.xml.
source "$(dirname "$0")/../../tools/common.sh"

configure arm
build arm mok_unit_tests
rm -f build/log/arm.xml
ctest --preset arm --output-junit "$project_dir/build/log/arm.xml"
