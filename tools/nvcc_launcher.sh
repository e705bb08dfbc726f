#!/usr/bin/env bash
# nvcc_launcher.sh: runs the CUDA compiler; its resource report (ptxas -v) goes to OBJECT.ptxas.txt.
set -uo pipefail

object=""
previous=""
for argument in "$@"; do
  if [[ $previous == -o ]]; then object=$argument; fi
  previous=$argument
done
if [[ $object != *.o ]]; then exec "$@"; fi

messages=$("$@" 2>&1)
status=$?
report='^ptxas info|^nvlink info|bytes stack frame, '
grep -E "$report" <<<"$messages" >"$object.ptxas.txt"
grep -Ev "$report" <<<"$messages" | sed '/^$/d' >&2
exit "$status"
