#!/usr/bin/env python3
# cli_test.py: the command as a user meets it: cli_test.py PATH_OF_MOK. Standard library only; the last
# line is `N passed, N failed`.
import sys
import tempfile

import cli_bad_input
import cli_works


def main():
    passed = failed = 0
    tests = [(name, test) for module in (cli_works, cli_bad_input)
             for name, test in vars(module).items() if name.startswith("test_")]
    for name, test in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(folder)
                passed += 1
            except Exception as error:  # a time-out or a crash is a failure like any other
                failed += 1
                text = str(error) if isinstance(error, AssertionError) else repr(error)
                place = error.__traceback__.tb_next or error.__traceback__
                line = place.tb_lineno
                print(f"FAILED {name} (line {line}): {text[:2000]}")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
