#!/usr/bin/env bash
# build.sh: set-up and release build of the command; build/mok links to it.
source "$(dirname "$0")/common.sh"

tools/setup.sh build
preset=$(release_preset)
configure "$preset"
say_machine "$preset"
build "$preset" mok mok_library
ln -sfn "$preset/mok" build/mok
echo "built: build/mok (build/$preset holds the rest)"
