#!/usr/bin/env bash
# run_all.sh: every test, stage by stage; the last line is `N passed, N failed`.
# N is summed from the runners' own reports (ctest's JUnit files); a script or a fuzz target counts as one.
# A build that fails counts as one failure and its tests do not run. Where only some stages are wanted:
# tests/run_all.sh asan hygiene. MOK_DEADLINE_SCALE (a factor on MoK's deadlines for slow builds) is set
# by the test presets; a value in the environment does not reach them.
source "$(dirname "$0")/../tools/common.sh"
set +e

tools/setup.sh test || exit $?
preset=$(release_preset)
num_passed=0 num_failed=0 num_skipped=0
release_built=1  # what needs the release build does not run where that failed, which counted already
stage_names=() stage_seconds=() stage_counts=() failures=()
wanted=" ${*:-release cli asan tsan arm fuzz install hygiene tidy gpu} "
trap 'exit 130' INT TERM

# check NAME COMMAND...: one check; its output goes to build/log/NAME.log, the end of it to the terminal
# where it fails.
check() {
  local name=$1 log="build/log/$1.log"
  shift
  if "$@" >"$log" 2>&1; then
    num_passed=$((num_passed + 1))
    return 0
  fi
  num_failed=$((num_failed + 1))
  failures+=("$name")
  echo "FAILED: $name (build/log/$name.log)"
  tail -n 60 "$log" | sed 's/^/    /'
  return 1
}

# must_pass NAME COMMAND...: a step that is no test of its own: counted only where it fails.
must_pass() {
  if check "$@"; then num_passed=$((num_passed - 1)); else return 1; fi
}

# count_report NAME STATUS: adds a ctest report; a runner that failed without a failed case counts as one.
count_report() {
  local name=$1 status=$2 passed failed skipped
  read -r passed failed skipped < <(python3 tests/hygiene/junit_counts.py "build/log/$name.xml" 2>&1 | tail -n 1)
  if [[ ! $passed =~ ^[0-9]+$ || ! $failed =~ ^[0-9]+$ || ! $skipped =~ ^[0-9]+$ ]]; then
    passed=0 failed=1 skipped=0
  fi
  if [[ $status -ne 0 && $failed -eq 0 ]]; then failed=1; fi
  num_passed=$((num_passed + passed))
  num_failed=$((num_failed + failed))
  num_skipped=$((num_skipped + skipped))
  if [[ $failed -gt 0 ]]; then
    failures+=("$name tests")
    echo "FAILED: $failed of $name (build/log/$name.log)"
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed )' "build/log/$name.log" | tail -n 100
  fi
}

# preset_tests PRESET [wrapper...]: configure, build everything, run ctest.
preset_tests() {
  local name=$1
  shift
  must_pass "${name}_configure" configure "$name" -DMOK_TESTS=ON || return 1
  local targets=(all)
  if [[ $name == asan || $name == tsan ]]; then targets=(mok_unit_tests); fi
  must_pass "${name}_build" cmake --build --preset "$name" --target "${targets[@]}" -- --quiet -k 5 || return 1
  rm -f "build/log/$name.xml"
  "$@" ctest --preset "$name" --output-junit "$project_dir/build/log/$name.xml" >"build/log/$name.log" 2>&1
  count_report "$name" $?
  return 0
}

stage_release() {
  preset_tests "$preset" || {
    release_built=0
    return 1
  }
  ln -sfn "$preset/mok" build/mok
}

# The main job as `make run` runs it, then the command's own tests, which count themselves.
stage_cli() {
  if [[ $release_built -eq 0 ]]; then return; fi
  check main_job "build/$preset/mok" run
  local status=0 total
  python3 tests/cli/cli_test.py "build/$preset/mok" >build/log/cli.log 2>&1 || status=$?
  total=$(tail -n 1 build/log/cli.log)
  local passed=0 failed=1
  if [[ $total =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
  fi
  if [[ $status -ne 0 && $failed -eq 0 ]]; then failed=1; fi
  num_passed=$((num_passed + passed))
  num_failed=$((num_failed + failed))
  if [[ $failed -gt 0 ]]; then
    failures+=("command tests")
    echo "FAILED: $failed of the command's tests (build/log/cli.log)"
    tail -n 60 build/log/cli.log | sed 's/^/    /'
  fi
}

stage_asan() { preset_tests asan; }

stage_tsan() {
  # The sanitizer's shadow memory does not fit some kernels' random address layouts.
  local wrapper=()
  if setarch "$(uname -m)" -R true 2>/dev/null; then wrapper=(setarch "$(uname -m)" -R); fi
  preset_tests tsan "${wrapper[@]}"
}

stage_arm() {
  rm -f build/log/arm.xml
  tests/arm/run.sh >build/log/arm.log 2>&1
  count_report arm $?
}

stage_fuzz() {
  must_pass fuzz_configure configure fuzz || return 1
  must_pass fuzz_build cmake --build --preset fuzz -- --quiet || return 1
  must_pass fuzz_seeds build/fuzz/mok_make_seeds build/fuzz/seeds || return 1
  local program name found=0
  for program in build/fuzz/fuzz/mok_fuzz_*; do
    if [[ ! -x $program ]]; then continue; fi
    found=1
    name=${program##*/mok_fuzz_}
    mkdir -p "build/fuzz/corpus/$name" "build/fuzz/found"
    check "fuzz_$name" "$program" -max_total_time=10 -seed=1 -rss_limit_mb=2048 -timeout=5 -verbosity=1 \
      -print_final_stats=1 -artifact_prefix=build/fuzz/found/ "build/fuzz/corpus/$name" "build/fuzz/seeds/$name"
  done
  if [[ $found -eq 0 ]]; then check fuzz_targets_exist false; fi
}

stage_install() { [[ $release_built -eq 0 ]] || check consumer tests/consumer/run.sh "$preset"; }

stage_hygiene() {
  check hygiene_selftest python3 tests/hygiene/selftest.py
  check includes python3 tests/hygiene/includes.py
  check text python3 tests/hygiene/text.py
  check format python3 tests/hygiene/format.py
  check self_contained python3 tests/hygiene/self_contained.py
  [[ $release_built -eq 0 ]] || check reference_links python3 tests/hygiene/reference_links.py "build/$preset"
  check setup_script tests/hygiene/setup_script.sh
}

stage_tidy() { [[ $release_built -eq 0 ]] || check tidy python3 tests/hygiene/tidy.py "build/$preset"; }

stage_gpu() {
  if [[ $release_built -eq 0 ]]; then return; fi
  if [[ $preset != cuda ]]; then
    echo "gpu: no nvcc, so no GPU code: skipped"
    return
  fi
  check ptxas python3 tests/hygiene/ptxas.py build/cuda
  local programs
  programs=$(find build/cuda/gpu -maxdepth 1 -type f -executable 2>/dev/null | wc -l)
  if [[ ! -e /dev/nvidiactl || ! -x tools/gpu_tests.sh ]]; then
    echo "gpu: $programs programs built, not run: no GPU here"
    num_skipped=$((num_skipped + programs))
    return
  fi
  check gpu_tests tools/gpu_tests.sh
}

start_all=$SECONDS
for stage in release cli asan tsan arm fuzz install hygiene tidy gpu; do
  if [[ $wanted != *" $stage "* ]]; then continue; fi
  echo "== $stage"
  start=$SECONDS before_passed=$num_passed before_failed=$num_failed
  "stage_$stage"
  if [[ $stage == release ]]; then say_machine "$preset"; fi
  stage_names+=("$stage")
  stage_seconds+=($((SECONDS - start)))
  stage_counts+=("$((num_passed - before_passed)) passed, $((num_failed - before_failed)) failed")
  echo "   $((SECONDS - start)) s, ${stage_counts[-1]}"
done

echo
for index in "${!stage_names[@]}"; do
  printf '%-8s %5d s   %s\n' "${stage_names[$index]}" "${stage_seconds[$index]}" "${stage_counts[$index]}"
done
printf '%-8s %5d s   %d skipped\n' all $((SECONDS - start_all)) "$num_skipped"
for name in "${failures[@]}"; do echo "failed: $name"; done
if [[ $((num_passed + num_failed)) -eq 0 ]]; then num_failed=1; fi
echo "$num_passed passed, $num_failed failed"
[[ $num_failed -eq 0 ]]
