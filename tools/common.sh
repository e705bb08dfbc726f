# common.sh: what the scripts share: the project's folder, the release preset, a quiet configure step.
# Sourced, never run.
set -euo pipefail
project_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$project_dir"
mkdir -p build/log
export PYTHONDONTWRITEBYTECODE=1

# cuda where nvcc is found (by the same search as the build's), else cpu. Needs cmake: after set-up.
release_preset() {
  if [[ -n $(cmake -P cmake/find_nvcc.cmake) ]]; then echo cuda; else echo cpu; fi
}

# configure PRESET [cmake arguments]: output goes to build/log/, and to the terminal where it fails.
configure() {
  local preset=$1 log="build/log/configure_$1.log" fresh=()
  shift
  local cache="build/$preset/CMakeCache.txt"
  # A build folder that came along with a copied tree belongs to the other tree.
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$project_dir" "$cache"; then
    fresh=(--fresh)
  fi
  if ! cmake --preset "$preset" "${fresh[@]}" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
}

# build PRESET TARGET: ninja's progress line on a terminal, silence elsewhere.
build() {
  local quiet=()
  if [[ ! -t 1 ]]; then quiet=(-- --quiet); fi
  cmake --build --preset "$1" --target "$2" "${quiet[@]}"
}

say_machine() {
  case "$1" in
    cuda) sed -n 's/^-- \(CUDA on: .*\)/\1/p' build/log/configure_cuda.log ;;
    *) echo "CPU only (no nvcc found)" ;;
  esac
}
