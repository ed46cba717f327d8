#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_style.py: each rule refuses a planted violation with the right words."""

import pathlib
import tempfile
import unittest

import check_style
from selftest import Tree
from tree import without_comments_and_literals


class Style(Tree):
    check = staticmethod(check_style.check)
    MARK = f"// {check_style.LICENCE}\n"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, path, text):
        super().write(path, self.MARK + text if path.endswith((".h", ".cc")) else text)

    def test_plain_code_passes(self):
        self.write("common/base/a.cc", "int F() {\n  return 1;  // a new thing to throw away\n}\nauto p = std::make_unique<int>(3);\n")
        self.accepted(self.check)

    def test_each_rule_of_code(self):
        planted = {
            "absl-mutex": "absl::Mutex m;", "std-mutex": "std::mutex m;", "std-format": 'auto s = std::format("x");',
            "bare-new": "int* p = new int;", "throw": "void F() { throw 1; }", "assert": "void F() { assert(true); }",
            "cout": "void F() { std::cout << 1; }", "thread-local": "thread_local int x;", "rand": "int x = rand();",
            "system-clock": "auto t = std::chrono::steady_clock::now();", "secret-compare": "auto s = a.secret == b.secret;", "getenv": 'auto s = std::getenv("HOME");',
            "received-slice": "auto s = message.Dump(&slices);", "fadvise": "::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);",
        }
        self.assertEqual(planted.keys(), check_style.CODE_RULES.keys())
        for rule, code in planted.items():
            with self.subTest(rule):
                self.write("common/base/a.cc", code + "\n")
                self.refused(self.check, f"[{rule}]", "common/base/a.cc:2")

    def test_each_rule_of_tests(self):
        planted = {"sleep": "std::this_thread::sleep_for(x);", "disabled-test": "TEST(A, DISABLED_B) {}",
                   "assert-nothing": "EXPECT_TRUE(true);"}
        self.assertEqual(planted.keys(), check_style.TEST_RULES.keys())
        for rule, code in planted.items():
            with self.subTest(rule):
                self.write("tests/unit/a_test.cc", code + "\n")
                self.refused(self.check, f"[{rule}]")

    def test_each_rule_of_text(self):
        planted = {"todo": "TO" + "DO: later", "machine-path": "see /wo" + "rk/main", "outside": ".." + "/shared/data",
                   "wording": "black" + "list", "glossary": "pseudo" + "gradient", "puffery": "seam" + "less"}
        self.assertEqual(planted.keys(), check_style.TEXT_RULES.keys())
        for rule, text in planted.items():
            with self.subTest(rule):
                self.write("docs/a.md", text + "\n")
                self.refused(self.check, f"[{rule}]")

    def test_long_function(self):
        body = "  F();\n" * check_style.FUNCTION_LINES
        self.write("worker/core/a.cc", "namespace atl {\n\nint A::F(int x) const {\n" + body + "}\n}\n")
        self.refused(self.check, "[function-lines]", "a.cc:4", "A::F has 72 lines")

    def test_long_test(self):
        self.write("tests/unit/a_test.cc", "TEST(A, B) {\n" + "  F();\n" * 80 + "}\n")
        self.refused(self.check, "[function-lines]")

    def test_class_is_not_a_function(self):
        self.write("worker/core/a.cc", "class A : public B {\n" + "  int F() const { return 1; }\n" * 100 + "};\n")
        self.accepted(self.check)

    def test_long_files(self):
        self.write("common/base/a.h", "int x;\n" * (check_style.HEADER_LINES + 1))
        self.refused(self.check, "[header-lines]")
        self.write("common/base/a.h", "")
        self.write("common/base/a.cc", "int x;\n" * (check_style.FILE_LINES + 1))
        self.refused(self.check, "[file-lines]")

    def test_licence(self):
        begins = {"a.h": "// ", "a.cu": "// ", "a.proto": "// ", "a.py": "# ", "a.sh": "# ", "b/CMakeLists.txt": "# ", "a.cmake": "# ", "a": "#!/bin/sh\n# "}
        for path, begin in begins.items():
            with self.subTest(path):
                Tree.write(self, path, begin + check_style.LICENCE + "\n")
                self.accepted(self.check)
                Tree.write(self, path, f"#!/bin/sh\n\n{begin}{check_style.LICENCE}\n")
                self.refused(self.check, f"{path}:1: [licence]")
                pathlib.Path(self.folder.name, path).unlink()
        Tree.write(self, "docs/a.md", "no source\n")
        self.accepted(self.check)

    def test_documents(self):
        self.write("docs/formats/a.md", "")
        self.write("docs/adr/0001-a-choice.md", "")
        self.write("common/base/a.cc", "// docs/formats/a.md, section 3; a.md; docs/adr/0001; docs/formats/NAME.md; x.md_of and https://b.org/c.md\n")
        self.write("docs/b.md", "[a](formats/a.md#part) and docs/formats/a.md\n")
        self.accepted(self.check)
        for path, text in {"common/base/a.cc": "// b.cc, docs/formats/c.md\n", "common/base/b.h": "// (c.md 6.2)\n", "scripts/c.py": "'docs/adr/0002'\n",
                           "docs/c.md": "[a](a.md)\n", "docs/d.md": "[a](docs/formats/a.md)\n", "docs/e.md": "docs/data/a.json\n"}.items():
            with self.subTest(path):
                self.write(path, "# " + check_style.LICENCE + "\n" + text if path.endswith(".py") else text)
                self.refused(self.check, f"{path}:", "[document] there is no ")
                self.write(path, "// nothing\n" if path.endswith(".cc") else "# " + check_style.LICENCE + "\n")

    def test_renames(self):
        Tree.write(self, "docs/renames.tsv", "kind\told\tnew\nlog\told text\tnew text\n")
        self.accepted(self.check)
        for row in ("log\told text", "word\told text\tnew text", "log\t\tnew text", "log\tsame\tsame"):
            Tree.write(self, "docs/renames.tsv", "kind\told\tnew\n" + row + "\n")
            self.refused(self.check, "write kind, old, new", "docs/renames.tsv:2")

    def test_exception_needs_a_reason_and_only_shrinks(self):
        self.write("common/base/a.cc", "std::mutex a;\nstd::mutex b;\n")
        self.write(check_style.ALLOWED, "std-mutex common/base/a.cc 2 wraps it\n")
        self.accepted(self.check)
        self.write("common/base/a.cc", "std::mutex a;\nstd::mutex b;\nstd::mutex c;\n")
        self.assertEqual(len(self.check(self.folder.name)), 3)
        self.write("common/base/a.cc", "int a;\n")
        self.refused(self.check, "no longer needed")
        self.write(check_style.ALLOWED, "std-mutex common/base/a.cc 2\n")
        with self.assertRaisesRegex(SystemExit, "REASON"):
            self.check(self.folder.name)

    def test_literals_and_comments_are_not_code(self):
        code = 'f("new \\" // x", \'"\', R"(throw "x")", 1\'000); // new\n/* new\n new */ g();\n'
        self.assertEqual(without_comments_and_literals(code).count("\n"), code.count("\n"))
        self.assertNotRegex(without_comments_and_literals(code), "new|throw|x")


if __name__ == "__main__":
    unittest.main()
