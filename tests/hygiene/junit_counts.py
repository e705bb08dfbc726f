#!/usr/bin/env python3
# junit_counts.py: counts of a ctest JUnit report: "passed failed skipped"; no tests or no report fails.
import argparse
import sys
import xml.etree.ElementTree as ElementTree


def counts(path):
    """Counts the cases themselves; the totals in the report's head must say the same."""
    suite = ElementTree.parse(path).getroot()
    passed = failed = skipped = 0
    for case in suite.iter("testcase"):
        status = case.get("status")
        if status == "run":
            passed += 1
        elif status in ("notrun", "disabled"):
            # ctest writes both for a test that did not run; only one that asked to be skipped may.
            message = case.find("skipped")
            text = "" if message is None else message.get("message", "")
            if status == "disabled" or text.startswith("SKIP_"):
                skipped += 1
            else:
                failed += 1
        else:
            failed += 1
    total = int(suite.get("tests", "-1"))
    if total != passed + failed + skipped or failed < int(suite.get("failures", "0")):
        raise ValueError(f"{path}: the report's totals do not match its cases")
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--line", action="store_true", help="print 'N passed, N failed'")
    parser.add_argument("report")
    arguments = parser.parse_args()
    try:
        passed, failed, skipped = counts(arguments.report)
    except (OSError, ValueError, ElementTree.ParseError) as error:
        print(f"junit_counts: {error}", file=sys.stderr)
        passed, failed, skipped = 0, 1, 0
    if passed + failed + skipped == 0:
        print(f"junit_counts: {arguments.report}: no test ran", file=sys.stderr)
        failed = 1
    if arguments.line:
        print(f"{passed} passed, {failed} failed")
    else:
        print(passed, failed, skipped)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
