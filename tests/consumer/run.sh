#!/usr/bin/env bash
# run.sh: installs the release build into an empty folder, builds a consumer on it, runs it: PRESET.
source "$(dirname "$0")/../../tools/common.sh"
preset=$1

prefix="$project_dir/build/install"
rm -rf "$prefix" build/consumer
cmake --install "build/$preset" --prefix "$prefix"
cmake -S tests/consumer -B build/consumer -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix"
cmake --build build/consumer
build/consumer/one_layer
build/consumer/one_layer_c
