#!/usr/bin/env python3
# selftest.py: the checks of this folder find what they are there to find.
import pathlib
import tempfile
import unittest

import includes
import junit_counts
import ptxas
import reference_links
import text


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path


class Includes(Tree):
    def problems(self, name, content):
        return includes.check_file(self.root, self.write(name, content))

    def test_downward_is_allowed(self):
        good = '// a.hpp: x.\n#include <vector>\n#include "core/bf16.hpp"\n#include "mok/status.hpp"\n'
        self.assertEqual(self.problems("src/cpu/a.hpp", good), [])
        self.assertEqual(self.problems("src/cli/a.cpp", '#include "reference/layer.hpp"\n'), [])

    def test_upward_is_refused(self):
        for folder, target in [
            ("core", "sync/wait.hpp"),
            ("sync", "cpu/machine.hpp"),
            ("program", "comm/world.hpp"),
            ("layer", "cli/run.hpp"),
            ("layer", "io/text.hpp"),
            ("io", "layer/layer.hpp"),
            ("cpu", "reference/layer.hpp"),
        ]:
            for line in (f'#include "{target}"\n', f"  #  include <{target}>\n"):
                self.assertEqual(len(self.problems(f"src/{folder}/a.cpp", line)), 1, (folder, target))

    def test_reference_sees_storage_types_only(self):
        self.assertEqual(self.problems("src/reference/a.cpp", '#include "core/bf16.hpp"\n'), [])
        self.assertEqual(len(self.problems("src/reference/a.cpp", '#include "core/layout.hpp"\n')), 1)
        self.assertEqual(len(self.problems("src/reference/a.cpp", '#include "mok/layer.hpp"\n')), 1)

    def test_public_third_party_and_io(self):
        self.assertEqual(len(self.problems("include/mok/a.hpp", '#include "core/bf16.hpp"\n')), 1)
        self.assertEqual(len(self.problems("src/cpu/a.cpp", "#include <fmt/format.h>\n")), 1)
        self.assertEqual(len(self.problems("src/route/a.cpp", "#include <iostream>\n")), 1)
        self.assertEqual(len(self.problems("src/core/a.cpp", '#include "bf16.hpp"\n')), 1)
        self.assertEqual(len(self.problems("src/new/a.cpp", "\n")), 1)


class Text(Tree):
    def problems(self, name, content):
        return text.check_file(self.root, self.write(name, content))

    def test_clean(self):
        self.assertEqual(self.problems("src/core/a.hpp", "// a.hpp: a thing.\n"), [])
        self.assertEqual(self.problems("tools/a.sh", "#!/bin/sh\n# a.sh: a thing.\n"), [])

    def test_each_rule(self):
        head = "// a.hpp: a thing.\n"
        for bad in (
            "int a;\n",
            "// b.hpp: another file's line.\n",
            head + "// TO" + "DO later\n",
            head + "// https" + "://example.org\n",
            head + '"/wo' + 'rk/main"\n',
            head + "\n" * 700,
        ):
            self.assertEqual(len(self.problems("src/core/a.hpp", bad)), 1, bad[:60])


class Junit(Tree):
    def counts(self, body, total):
        failures = body.count('status="fail"')
        xml = f'<testsuite tests="{total}" failures="{failures}">{body}</testsuite>'
        return junit_counts.counts(self.write("report.xml", xml))

    def test_counts(self):
        run = '<testcase name="a" status="run"/>'
        fail = '<testcase name="b" status="fail"/>'
        skip = '<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
        lost = '<testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>'
        self.assertEqual(self.counts(run * 3 + fail + skip + lost, 6), (3, 2, 1))
        with self.assertRaises(ValueError):
            self.counts(run, 2)


class Others(unittest.TestCase):
    def test_spills_are_read(self):
        log = (
            "ptxas info    : Compiling entry function '_Z1kv' for 'sm_90a'\n"
            "ptxas info    : Function properties for _Z1kv\n"
            "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
            "ptxas info    : Used 168 registers, used 1 barriers\n"
        )
        self.assertEqual(ptxas.kernels(log), [("_Z1kv", "sm_90a", 168, 16, 12)])

    def test_only_status_is_open_to_the_reference(self):
        allowed = reference_links.ALLOWED
        self.assertTrue(allowed.match("mok::Status::bad_argument(int)"))
        self.assertFalse(allowed.match("mok::route::build_tables(mok::Status)"))
        self.assertTrue(reference_links.PROJECT_SYMBOL.search("mok::cpu::gemm(float)"))
        self.assertTrue(reference_links.PROJECT_SYMBOL.search("mok_forward"))


if __name__ == "__main__":
    unittest.main(verbosity=0)
