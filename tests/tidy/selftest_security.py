#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_security.py refuses each planted violation."""

import unittest

import check_security
from selftest import Tree


class Security(Tree):
    check = staticmethod(check_security.check)

    def setUp(self):
        super().setUp()
        self.rows = {}
        for file, letter, last in check_security.ROWS:
            self.rows[file] = "".join(f'[{letter}{n}]\ntests = ["SomeTest.Refuses"]\n' for n in range(1, last + 1))
            self.write(file, self.rows[file])
        numbers = ", ".join(f"S{n}" for n in range(1, check_security.ROWS[0][2] + 1))
        self.invariants = "".join(f'[I{n}]\ntests = ["SomeTest.Refuses"]\n' for n in range(1, check_security.LAST_INVARIANT + 1))
        self.write(check_security.INVARIANTS, self.invariants)
        self.test = f"// {numbers}.\nTEST(SomeTest, Refuses) {{}}\n"
        self.write("tests/unit/some_test.cc", self.test)

    def rewrite(self, file, old, new):
        self.write(file, self.rows[file].replace(old, new, 1))

    def test_rows_with_their_tests_pass(self):
        self.accepted(self.check)

    def test_a_test_that_has_gone(self):
        for file, first in ((check_security.ATTACKS, "S1"), (check_security.FAULTS, "F1")):
            self.rewrite(file, "SomeTest.Refuses", "SomeTest.Refused")
            self.refused(self.check, f"{file}: {first} names SomeTest.Refused, which is no test")
            self.write(file, self.rows[file])

    def test_an_invariant_with_a_missing_test(self):
        self.write(check_security.INVARIANTS, self.invariants.replace("SomeTest.Refuses", "SomeTest.Refused", 1))
        self.refused(self.check, "I1 names SomeTest.Refused, which is no test")

    def test_an_invariant_with_a_missing_story(self):
        self.write(check_security.INVARIANTS, self.invariants.replace("SomeTest.Refuses", "stories/told", 1))
        self.refused(self.check, "I1 names stories/told, which is no test")
        self.write("tests/scenario/stories/told.txt", "")
        self.accepted(self.check)

    def test_an_invariant_with_a_missing_law(self):
        self.write(check_security.INVARIANTS, self.invariants.replace("SomeTest.Refuses", "law I1", 1))
        self.refused(self.check, "I1 names law I1, which is no test")
        self.write("tests/sim/laws.cc", 'Break("I1: twice");\n')
        self.accepted(self.check)

    def test_an_invariant_with_a_missing_source(self):
        self.write(check_security.INVARIANTS, self.invariants + 'code = ["worker/core/held.cc Hold"]\n')
        self.refused(self.check, "I30 names worker/core/held.cc, which does not exist")
        self.write("worker/core/held.cc", "void Held() {}\n")
        self.refused(self.check, "I30 names Hold in worker/core/held.cc, which has no such name")
        self.write("worker/core/held.cc", "void Hold() {}\n")
        self.accepted(self.check)

    def test_a_missing_invariant(self):
        self.write(check_security.INVARIANTS, self.invariants.replace("[I7]", "[J7]"))
        self.refused(self.check, "I7 names no test")

    def test_a_program_that_has_gone(self):
        self.rewrite(check_security.ATTACKS, "SomeTest.Refuses", "integration.gone")
        self.refused(self.check, "S1 names integration.gone, which is no test")

    def test_a_row_without_a_test(self):
        self.rewrite(check_security.ATTACKS, '"SomeTest.Refuses"', "")
        self.refused(self.check, "S1 names no test")

    def test_a_row_that_has_gone(self):
        self.rewrite(check_security.ATTACKS, "[S32]", "[C32]")
        self.refused(self.check, "there is no row S32")

    def test_a_number_that_stands_at_no_test(self):
        self.write("tests/unit/some_test.cc", self.test.replace("S2, ", ""))
        self.refused(self.check, "S2 does not stand at SomeTest.Refuses")

    def test_a_number_that_stands_at_another_test(self):
        self.write("tests/unit/some_test.cc", "// S2.\nTEST(SomeTest, Takes) {\n  // S2\n}\n\n" + self.test.replace("S2, ", ""))
        self.refused(self.check, "S2 does not stand at SomeTest.Refuses")

    def test_a_number_within_a_test(self):
        self.write("tests/unit/some_test.cc", self.test.replace("S2, ", "").replace("{}", "{\n  Refuse();  // S2\n}"))
        self.accepted(self.check)

    def test_a_script_without_the_number(self):
        self.rewrite(check_security.ATTACKS, "SomeTest.Refuses", "integration.script (long)")
        self.write("tests/integration/programs.cmake", "atoll_program_test(script 60)\n")
        self.write("tests/integration/script.py", '"""S2."""\n')
        self.refused(self.check, "S1 does not stand at integration.script")
        self.write("tests/integration/script.py", '"""S1."""\n')
        self.accepted(self.check)

    def test_a_story_without_the_number(self):
        self.rewrite(check_security.ATTACKS, "SomeTest.Refuses", "stories/told")
        self.refused(self.check, "S1 names stories/told, which is no test")
        self.write("tests/scenario/stories/told.txt", "# S2\n")
        self.refused(self.check, "S1 does not stand at stories/told")
        self.write("tests/scenario/stories/told.txt", "# S1\n")
        self.accepted(self.check)

    def test_a_script_of_scripts(self):
        self.rewrite(check_security.FAULTS, "SomeTest.Refuses", "scripts/soak")
        self.refused(self.check, "F1 names scripts/soak, which is no test")
        self.write("scripts/soak", "")
        self.accepted(self.check)

    def test_a_suite_and_a_program(self):
        self.rewrite(check_security.ATTACKS, "SomeTest.Refuses", "Other.*")
        self.write("tests/other/other_test.cc", "TEST(Other, Refuses) {}\n")
        self.refused(self.check, "S1 does not stand at Other.*")
        self.write("tests/other/other_test.cc", "// All of it is S1.\n\nTEST(Other, Refuses) {}\n")
        self.accepted(self.check)
        self.write("tests/other/CMakeLists.txt", "atoll_test(other_test SOURCES other_test.cc)\n")
        self.write(check_security.ATTACKS, self.rows[check_security.ATTACKS].replace("SomeTest.Refuses", "other_test"))
        self.refused(lambda root: self.check(root)[:1], "S2 does not stand at other_test")


if __name__ == "__main__":
    unittest.main()
