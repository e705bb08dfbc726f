#!/usr/bin/env bash
# gpu_tests.sh: runs every GPU test program of a folder: gpu_tests.sh [OUTPUT_FOLDER [PROGRAM_FOLDER]].
# Each program runs under a time limit, takes --json FILE and ends with `N passed, N failed`. Writes
# gpu_tests.json and gpu_tests.md (date, GPU, driver, commit, what the programs printed); prints one
# table last. Defaults: build/gpu_results and build/cuda/gpu. MOK_COMMIT names the commit where the
# tree came without git.
set -euo pipefail

project_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=${1:-$project_dir/build/gpu_results}
programs=${2:-$project_dir/build/cuda/gpu}
time_limit=170  # seconds a program
mkdir -p "$output"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# json_text TEXT: the text as a JSON string.
json_text() { printf '"%s"' "$(sed 's/\\/\\\\/g; s/"/\\"/g' <<<"$1")"; }

date=$(date -u +%Y-%m-%dT%H:%MZ)
gpu=unknown driver=unknown
if facts=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null); then
  IFS=, read -r gpu driver <<<"${facts%%$'\n'*}"
  driver=${driver# }
fi
commit=${MOK_COMMIT:-$(git -C "$project_dir" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)}
if [[ -z ${MOK_COMMIT:-} && -n $(git -C "$project_dir" status --porcelain 2>/dev/null | head -n 1) ]]; then
  commit+="-changed"
fi

names=() seconds=() statuses=() totals=()
num_passed=0 num_failed=0
for program in "$programs"/*; do
  if [[ ! -f $program || ! -x $program ]]; then continue; fi
  name=${program##*/}
  echo "== $name"
  start=$SECONDS status=0
  timeout -k 10 "$time_limit" "$program" --json "$logs/$name.json" 2>&1 | tee "$logs/$name.log" ||
    status=${PIPESTATUS[0]}
  total=$(tail -n 1 "$logs/$name.log")
  passed=0 failed=0
  if [[ $total =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
  else
    total="no total"
  fi
  if [[ $status -ne 0 && $failed -eq 0 ]]; then failed=1; fi
  if [[ $status -eq 0 && $passed -eq 0 ]]; then failed=1; fi
  num_passed=$((num_passed + passed)) num_failed=$((num_failed + failed))
  names+=("$name") seconds+=($((SECONDS - start))) statuses+=("$status") totals+=("$total")
done
if [[ ${#names[@]} -eq 0 ]]; then
  echo "no program found in $programs"
  num_failed=1
fi

{
  printf '{"date":%s,"gpu":%s,"driver":%s,"commit":%s,"passed":%d,"failed":%d,"programs":[' \
    "$(json_text "$date")" "$(json_text "$gpu")" "$(json_text "$driver")" "$(json_text "$commit")" \
    "$num_passed" "$num_failed"
  for index in "${!names[@]}"; do
    name=${names[$index]}
    if [[ $index -gt 0 ]]; then printf ','; fi
    printf '\n{"name":%s,"exit_status":%d,"seconds":%d,"total":%s,"report":' "$(json_text "$name")" \
      "${statuses[$index]}" "${seconds[$index]}" "$(json_text "${totals[$index]}")"
    if [[ -s $logs/$name.json ]]; then cat "$logs/$name.json"; else printf 'null'; fi
    printf '}'
  done
  printf ']}\n'
} >"$output/gpu_tests.json"

table() {
  for index in "${!names[@]}"; do
    # shellcheck disable=SC2059  # the format is this function's argument
    printf "$1" "${names[$index]}" "${statuses[$index]}" "${seconds[$index]}" "${totals[$index]}"
  done
}
{
  echo "# GPU tests"
  echo
  echo "$date, $gpu, driver $driver, commit $commit"
  echo
  echo "| program | exit status | seconds | total |"
  echo "| --- | --- | --- | --- |"
  table '| %s | %s | %s | %s |\n'
  for name in "${names[@]}"; do
    printf '\n## %s\n\n```\n' "$name"
    cat "$logs/$name.log"
    echo '```'
  done
} >"$output/gpu_tests.md"

echo
echo "$date, $gpu, driver $driver, commit $commit"
table '%-16s exit %-3s %4s s   %s\n'
echo "$num_passed passed, $num_failed failed"
[[ $num_failed -eq 0 ]]
