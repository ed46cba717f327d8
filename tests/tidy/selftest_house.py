#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/house: each figure on a small tree, and the comparison with tests/tidy/ratchets.json."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import unittest

from selftest import ROOT, Tree

LOADER = importlib.machinery.SourceFileLoader("house", str(ROOT / "scripts/house"))
house = importlib.util.module_from_spec(importlib.util.spec_from_loader("house", LOADER))
LOADER.exec_module(house)

CLASS = """// SPDX-License-Identifier: Apache-2.0
// A text of five words.
namespace atl {
class ATOLL_CAPABILITY("x") A : public B<int> {
 public:
  A() = default;
  explicit A(int x) : x_(x) {}

  std::function<void(int)> hook;
  int Get() const { return Twice(x_); }
  void Set(std::vector<int> x, int y);
  struct Inner { int Not() { return 1; } };
 private:
  using F = void(int);
  int x_ ATOLL_GUARDED_BY(m_) = 0;
  ContributionHeader header;
  std::map<UploadId, int> uploads;
};
}  // namespace atl
"""


class House(Tree):
    def figures(self):
        return house.House(self.folder.name).figures()

    def test_code_and_classes(self):
        self.write("common/base/a.h", CLASS)
        self.write("tests/unit/a_test.cc", CLASS)
        figures = self.figures()
        self.assertEqual(figures["code_lines"], 16)
        self.assertEqual(figures["methods_of_the_largest_class"], 3)
        self.assertEqual(figures["types_with_a_contribution_header"], 1)
        self.assertEqual(figures["maps_by_upload"], 1)

    def test_functions(self):
        self.write("worker/core/a.cc", "".join(f"int F{n}() {{\n" + "\n  G();  // x\n" * n + "}\n" for n in range(10)))
        figures = self.figures()
        self.assertEqual([figures[f"function_lines_{what}"] for what in ("median", "p90", "p99", "longest")], [6, 11, 11, 11])

    def test_duplicate_types(self):
        self.write("common/base/a.h", "namespace atl {\nstruct A {};\nstruct B;\nenum class C { k };\ntemplate <class T>\nclass D final : E<T> {};\n}\n")
        for path, text, name in (("worker/core/a.cc", "namespace atl { struct A {}; }", "atl::A"), ("cli/c.h", "namespace atl {\nenum class C { k };\n}", "atl::C"),
                                 ("coordinator/core/d.h", "namespace atl { class D {}; }", "atl::D")):
            with self.subTest(name):
                self.write(path, text)
                self.assertEqual([found for found, _ in house.duplicates(house.House(self.folder.name).definitions)], [name])
                self.write(path, "")

    def test_types_that_do_not_meet(self):
        self.write("worker/core/a.cc", "namespace atl {\nstruct A {};\nnamespace {\nstruct B {};\n}\nvoid F() { struct C {}; }\n}\n")
        self.write("coordinator/core/a.cc", "namespace atl { struct A {}; }")
        self.write("common/base/b.cc", "namespace atl::x {\nstruct A {};\n}\nnamespace atl { namespace { struct B {}; } struct C {}; template <> struct E<int> {}; }")
        self.write("common/base/c.cc", "namespace atl { template <> struct E<long> {}; class A; void G(struct A& a) { } }")
        self.assertEqual(self.figures()["duplicate_types"], 0)

    def test_markers(self):
        comment = "// It is told here, who is\n// behind a proxy, or behind time.\n"
        self.write("common/base/a.cc", comment + 'auto x = "nobody has it";  // a path\nint who;\n')
        self.write("tests/unit/a_test.cc", 'auto x = "nobody";  // one word is here\n')
        found = [word for _, _, word in house.House(self.folder.name).comments.places]
        self.assertEqual(sorted(found), ["behind", "is told", "nobody", "who"])
        self.write("tests/unit/a_test.cc", "")
        self.assertEqual(self.figures()["markers_per_1000_words_of_comments"], round(1000 * 4 / 17, 1))

    def test_a_marker_across_lines(self):
        self.write("common/base/a.cc", "// The worker goes\n// to the coordinator and gives\n//   up.\n\nint x;  // gives\nint up;\n")
        self.assertEqual([(line, word.split()) for _, line, word in house.House(self.folder.name).comments.places], [(1, ["goes", "to"]), (1, ["gives", "up"])])

    def test_pages(self):
        self.write("docs/a.md", "One two three.\n\n    who in code\n\n`who` said ten\n\n| a | " + "x" * 201 + " |\n\n" + "y " * 81 + "\n")
        self.write("docs/formats/b.md", "who who\n" + "y " * 81 + "\n")
        self.write("docs/c.md", "<!-- Made by scripts/generate-docs -->\nwho who\n")
        self.write("docs/style.md", "nobody\n")
        figures = self.figures()
        self.assertEqual(figures["words_of_guides"], 3 + 3 + 3 + 2 + 81)
        self.assertEqual((figures["guide_lines_above_160_characters"], figures["guide_cells_above_200_characters"]), (1, 1))
        self.assertEqual([word for *_, word in house.House(self.folder.name).pages.places], ["said", "who", "who"])

    # --- the comparison

    def run_house(self, *options):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = house.main([*options, "--root", self.folder.name])
        return status, said.getvalue()

    def limits(self, **changes):
        path = pathlib.Path(self.folder.name, house.RATCHETS)
        if changes:
            path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return json.loads(path.read_text())

    def test_ratchets(self):
        self.write("common/base/a.cc", "int F() {\n  return 1;\n}\n" * 50)
        self.write(house.RATCHETS, "{}")
        self.assertEqual(self.run_house("--check")[0], 1)
        self.run_house("--lower")
        self.assertEqual(self.run_house("--check")[0], 0)
        for changes, words in (({"function_lines_p90": 2}, "function_lines_p90 rose from 2 to 3"), ({"function_lines_p90": 4}, "run scripts/house --lower"),
                               ({"code_lines": 147}, "code_lines rose from 147 to 150"), ({"code_lines": 154}, "code_lines fell")):
            with self.subTest(words):
                before = self.limits()
                self.limits(**changes)
                status, said = self.run_house("--check")
                self.assertEqual((status, words in said), (1, True), said)
                self.limits(**before)
        self.limits(code_lines=148, function_lines_longest=5)
        self.run_house("--lower")
        self.assertEqual((self.limits()["code_lines"], self.limits()["function_lines_longest"]), (148, 3))
        self.assertEqual(self.run_house("--check")[0], 0)


if __name__ == "__main__":
    unittest.main()
