#!/usr/bin/env bash
# setup_script.sh: tools/setup.sh says nothing when nothing is missing, and names the apt line when it is.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
  echo "setup_script: $1"
  exit 1
}
# As a user without rights; where this is not root already, as this user.
as_user() {
  if [[ $(id -u) -eq 0 ]]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi
}
# A copy that every user may read, wherever this tree lies.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
install -m 755 tools/setup.sh "$folder/setup.sh"

out=$(as_user env MOK_SETUP_PACKAGES="dpkg bash" "$folder/setup.sh" build 2>&1) || fail "status with nothing missing"
[[ -z $out ]] || fail "not quiet with nothing missing: $out"

status=0
out=$(as_user env MOK_SETUP_PACKAGES="dpkg mok-absent-one mok-absent-two" "$folder/setup.sh" build 2>&1) || status=$?
[[ $status -eq 2 ]] || fail "status $status without root, must be 2"
line="apt-get install -y --no-install-recommends mok-absent-one mok-absent-two"
grep -qxF "$line" <<<"$out" || fail "no exact apt line: $out"

status=0
out=$(env PATH="$folder" /bin/bash "$folder/setup.sh" build 2>&1) || status=$?
[[ $status -eq 2 && $out == *"not a Debian system"* ]] || fail "not Debian: status $status: $out"

status=0
"$folder/setup.sh" everything >/dev/null 2>&1 || status=$?
[[ $status -eq 2 ]] || fail "unknown argument: status $status, must be 2"
echo "setup_script: passed"
