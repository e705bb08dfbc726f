# Makefile: the few commands of this project; each sets up what is missing first.
#   make        set up and build build/mok        make test    set up, build and run every test
#   make run    the main job (ARGS="--ranks 2")    make check   inner loop: release build, unit tests
#   make format clang-format in place              make clean   remove build/
.PHONY: all run test check format clean

all:
	@tools/build.sh

run:
	@tools/build.sh
	@build/mok run $(ARGS)

test:
	@tests/run_all.sh

check:
	@tools/check.sh

format:
	@tools/setup.sh format
	@python3 tests/hygiene/format.py --fix

clean:
	rm -rf build
