#!/usr/bin/env bash
# setup.sh: installs the missing Debian packages, and only those: setup.sh build|test|format.
# Says nothing, needs no network and no root when nothing is missing. Exit 2: it cannot be done here.
# MOK_SETUP_PACKAGES replaces the list (for the test of this script).
set -euo pipefail

build_packages=(
  g++ cmake ninja-build ccache
  libcli11-dev nlohmann-json3-dev libfmt-dev libexpected-dev libxxhash-dev
)
format_packages=(clang-format-14 python3)
test_packages=(
  "${build_packages[@]}" "${format_packages[@]}"
  libgtest-dev libgmock-dev googletest libbenchmark-dev libdnnl-dev
  clang-tidy-14 clang-14 libclang-rt-14-dev
  g++-aarch64-linux-gnu qemu-user
)

case "${1:-}" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${test_packages[@]}") ;;
  format) packages=("${format_packages[@]}") ;;
  *) echo "set-up: argument '${1:-}': must be build, test or format" >&2; exit 2 ;;
esac
if [[ -n ${MOK_SETUP_PACKAGES:-} ]]; then read -ra packages <<<"$MOK_SETUP_PACKAGES"; fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "set-up: this is not a Debian system (no dpkg-query or apt-get)." \
    "Needed, by Debian's names: ${packages[*]}" >&2
  exit 2
fi

# Status of each package from dpkg's own database; unknown names are simply absent from the answer.
declare -A status_of=()
while read -r name status; do
  status_of[$name]=$status
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  case "${status_of[$package]:-}" in
    installed | triggers-pending | triggers-awaited) ;;
    *) missing+=("$package") ;;
  esac
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

install_line="apt-get install -y --no-install-recommends ${missing[*]}"
if [[ $(id -u) -ne 0 ]]; then
  echo "set-up: Debian packages are missing and this is not root. As root, run:" >&2
  echo "$install_line" >&2
  exit 2
fi

echo "set-up: installing ${#missing[@]} Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && $install_line; } </dev/null >"$log" 2>&1; then
  tail -n 15 "$log" >&2
  echo "set-up: this failed: $install_line" >&2
  exit 2
fi
