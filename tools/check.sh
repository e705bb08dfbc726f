#!/usr/bin/env bash
# check.sh: the inner loop: release build and unit tests, nothing else.
source "$(dirname "$0")/common.sh"

tools/setup.sh test
preset=$(release_preset)
configure "$preset" -DMOK_TESTS=ON
say_machine "$preset"
build "$preset" mok_unit_tests
report="$project_dir/build/log/check.xml"
rm -f "$report"
status=0
ctest --preset "$preset" -L '^unit$' --output-junit "$report" >build/log/check.log 2>&1 || status=$?
if [[ $status -ne 0 ]]; then
  grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed )' build/log/check.log | tail -n 200
fi
python3 tests/hygiene/junit_counts.py --line "$report"
exit "$status"
