#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""For a seed that breaks a law, scripts/simulate prints one command that replays the seed with all its options. The
script succeeds only if at least one seed was played.

simulate_script.py SCRIPT PROGRAM     PROGRAM is atoll-simulate
"""
import json
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT, PROGRAM = sys.argv[1:3]
WAYS = ([], ["--no-strangers"], ["--drop-syncs", "0.2"], ["--no-strangers", "--drop-syncs", "0.05"],
        ["--drop-syncs", "0.2", "--samples", "900"], ["--no-strangers", "--faults", "F1,F7"])
LINE = {"seed": 7, "sqlite": False, "audit": False, "broken": "I1: for the test", "simulated_seconds": 1, "cpu_seconds": 1,
        "messages": 0, "lost_messages": 0, "faults": {}, "reached": {}}


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.heard = pathlib.Path(folder.name, "heard")
        self.stand_in = pathlib.Path(folder.name, "program")

    def stands_in(self, *shell):
        """A program that records its arguments, one per line, and runs `shell`."""
        self.stand_in.write_text("\n".join(["#!/bin/sh", f'printf "%s\\n" "$@" > {self.heard}', *shell]) + "\n")
        self.stand_in.chmod(stat.S_IRWXU)

    def simulate(self, *words):
        return subprocess.run([SCRIPT, *words, "--bin", str(self.stand_in)], stdout=subprocess.PIPE, text=True, timeout=60)

    def replayed(self, printed):
        """The arguments of the program when the printed command is run."""
        command = [line for line in printed.splitlines() if line.startswith("play it again: ")]
        self.assertEqual(len(command), 1, printed)
        words = command[0].removeprefix("play it again: ").split()
        self.assertEqual(words[:2], ["scripts/simulate", "--only"])
        self.assertEqual(self.simulate(*words[1:]).returncode, 0)
        return self.heard.read_text().split()

    def test_a_seed_that_breaks_a_law(self):
        for way in WAYS:
            with self.subTest(way):
                real = subprocess.run([PROGRAM, "7", "1", "0.02", "60", *way], stdout=subprocess.PIPE, text=True, timeout=120)
                told = LINE | {"replay": json.loads(real.stdout)["replay"]}
                self.stands_in('for word; do [ "$word" = --tell ] && exit 0; done', f"echo '{json.dumps(told)}'", "exit 1")
                ended = self.simulate("--seed", "7", "--simulated", "0.02", *way)
                self.assertEqual(ended.returncode, 1)
                self.assertEqual(self.heard.read_text().split()[4:], way)
                self.assertEqual(self.replayed(ended.stdout), ["7", "1", "0.02", "3600", "--tell", *way])

    def test_a_program_that_dies(self):
        for way in WAYS:
            with self.subTest(way):
                self.stands_in('for word; do [ "$word" = --tell ] && exit 0; done', "exit 3")
                ended = self.simulate("--seed", "7", "--simulated", "0.02", *way)
                self.assertEqual(ended.returncode, 1)
                self.assertEqual(self.replayed(ended.stdout), ["7", "1", "0.02", "3600", "--tell", *way])

    def test_a_program_without_a_result(self):
        well = json.dumps(LINE | {"broken": ""})
        for ends in (["exit 0"], ["exit 1"], [f"echo '{well}'", "exit 1"]):
            with self.subTest(ends):
                self.stands_in('for word; do [ "$word" = --tell ] && exit 0; done', *ends)
                ended = self.simulate("--seed", "7", "--simulated", "0.02")
                self.assertEqual(ended.returncode, 1)
                self.assertIn(f"the program ended with status {ends[-1][-1]} and without a result of this seed", ended.stdout)
                self.replayed(ended.stdout)

    def test_no_seed_is_no_success(self):
        self.stands_in("exit 0")
        ended = self.simulate("--hours", "1e-12")
        self.assertEqual((ended.returncode, ended.stdout, self.heard.exists()), (1, "", False))


class Switches(unittest.TestCase):
    def plays(self, *way):
        ended = subprocess.run([PROGRAM, "7", "1", "0.3", "60", *way], stdout=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return json.loads(ended.stdout)

    def test_strangers_come_unless_they_are_kept_out(self):
        def strangers(played):
            return [kind for kind in played["faults"] if kind.startswith("stranger")]
        self.assertTrue(strangers(self.plays()))
        self.assertEqual(strangers(self.plays("--no-strangers")), [])

    def test_syncs_are_dropped_where_asked(self):
        self.assertNotEqual(self.plays("--no-strangers", "--drop-syncs", "0.5")["trace"], self.plays("--no-strangers")["trace"])

    def test_data_ends_where_asked(self):
        self.assertNotEqual(self.plays("--samples", "500")["trace"], self.plays()["trace"])

    def test_what_is_not_known_is_refused(self):
        ended = subprocess.run([PROGRAM, "7", "1", "0.02", "60", "--no-stranger"], stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("--no-stranger is not known", ended.stderr)

    def test_asked_faults_come_alone(self):
        self.assertEqual(set(self.plays("--no-strangers", "--faults", "F1,F4")["faults"]),
                         {"submit a job", "worker: killed", "worker: stopped"})

    def test_a_fault_that_is_not_simulated_is_refused(self):
        ended = subprocess.run([PROGRAM, "7", "1", "0.02", "60", "--faults", "F1,F3"], stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("no fault 'F3' is simulated by itself; --faults takes some of F1,F11,", ended.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
