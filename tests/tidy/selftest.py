#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks: each plants a violation in a temporary tree, which must be refused with the right words."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import check_dashboards  # noqa: E402
import check_elf  # noqa: E402
import check_includes  # noqa: E402
import check_mutants  # noqa: E402

HOUSE = (ROOT / check_includes.TABLE).read_text()


class Tree(unittest.TestCase):
    """A temporary repository with the real table of rooms."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write(check_includes.TABLE, HOUSE)

    def write(self, path, text):
        file = pathlib.Path(self.folder.name, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def refused(self, check, *words):
        problems = check(self.folder.name)
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def accepted(self, check):
        self.assertEqual(check(self.folder.name), [])


class Dashboards(Tree):
    check = staticmethod(check_dashboards.check)

    def setUp(self):
        super().setUp()
        self.write("docs/metrics.md", "| `atoll_jobs` | gauge | | state | Jobs. |\n")
        self.write("docs/alerts.md", "# Alerts\n\n| `Held` | wait |\n")
        self.write("deploy/prometheus/atoll.rules.yml", "- alert: Held\n  expr: atoll_jobs > 1\n  runbook: docs/alerts.md#alerts\n")
        self.write("deploy/prometheus/atoll_test.yml", "alertname: Held\nalertname: Held\n")
        self.write("deploy/grafana/make_dashboards.py", "def files(): return {'a.json': '{}'}\n")
        self.write("deploy/grafana/a.json", "{}")

    def test_agreement_passes(self):
        self.accepted(self.check)

    def test_unknown_metric(self):
        self.write("deploy/prometheus/atoll.rules.yml", "- alert: Held\n  expr: atoll_jibs > 1\n")
        self.refused(self.check, "atoll.rules.yml", "no metric atoll_jibs")

    def test_alert_without_a_row(self):
        self.write("docs/alerts.md", "# Alerts\n")
        self.refused(self.check, "no row for Held")

    def test_runbook_link_without_its_section(self):
        self.write("docs/alerts.md", "| `Held` | wait |\n")
        self.refused(self.check, "docs/alerts.md#alerts is no section")

    def test_alert_without_tests(self):
        self.write("deploy/prometheus/atoll_test.yml", "alertname: Held\n")
        self.refused(self.check, "Held wants a case where it fires")

    def test_stale_dashboard(self):
        self.write("deploy/grafana/a.json", "{ }")
        self.refused(self.check, "a.json", "make_dashboards.py")


class Includes(Tree):
    check = staticmethod(check_includes.check)

    def test_machine_that_sees_its_holder(self):
        self.write("coordinator/core/round.h", '#include "coordinator/core/facts.h"\n')
        self.write("coordinator/core/facts.h", '#include "coordinator/core/fleet.h"\n')
        self.refused(self.check, "coordinator/core/round.h:1", "may not see coordinator/core/fleet.h")

    def test_machine_body_that_sees_another_machine(self):
        self.write("coordinator/core/round.cc", '#include "coordinator/core/round.h"\n#include "coordinator/core/leases.h"\n')
        self.refused(self.check, "coordinator/core/round.cc:1", "may not see coordinator/core/leases.h")

    def test_two_machines_in_one_file(self):
        both = '#include "coordinator/core/leases.h"\n#include "coordinator/core/round.h"\n'
        self.write("coordinator/core/run.h", both)
        self.accepted(self.check)
        self.write("coordinator/core/ending.cc", both)
        self.refused(self.check, "coordinator/core/ending.cc:1", "include the header that holds them")

    def test_allowed_edges_pass(self):
        self.write("common/plan/a.h", '#include "common/base/status.h"\n#include <vector>\n')
        self.write("coordinator/engine/a.cc", '#include "common/codec/codec.h"\n')  # through aggregate
        self.write("worker/train/a.cc", "#include <ATen/ATen.h>\n")
        self.write("common/wire/a.cc", '#include "atoll/v1/job.pb.h"\n')
        self.accepted(self.check)

    def test_upward_edge(self):
        self.write("common/base/a.h", '\n#include "common/plan/job_spec.h"\n')
        self.refused(self.check, "common/base/a.h:2", "room common/base may not include", check_includes.TABLE)

    def test_sideways_edge(self):
        self.write("coordinator/core/a.cc", '#include "coordinator/store/ledger.h"\n')
        self.refused(self.check, "room coordinator/core may not include")

    def test_torch_outside_its_rooms(self):
        self.write("worker/replica/a.cc", "#include <torch/types.h>\n")
        self.refused(self.check, "worker/replica may not see LibTorch")

    def test_library_through_a_header(self):
        self.write("common/rpc/channel.h", "#include <grpcpp/grpcpp.h>\n")
        self.write("common/rpc/retry.h", '#include "common/rpc/channel.h"\n')
        self.write("coordinator/engine/a.cc", '#include "common/rpc/retry.h"\n')
        self.refused(self.check, "brings gRPC into room coordinator/engine", "through common/rpc/channel.h")

    def test_torch_and_grpc_in_one_unit(self):
        self.write("common/rpc/channel.h", "#include <grpcpp/grpcpp.h>\n")
        self.write("worker/daemon/a.cc", '#include <ATen/ATen.h>\n#include "common/rpc/channel.h"\n')
        self.refused(self.check, "sees LibTorch and gRPC")

    def test_grpc_outside_its_rooms(self):
        self.write("coordinator/engine/a.cc", "#include <grpcpp/grpcpp.h>\n")
        self.refused(self.check, "coordinator/engine may not see gRPC")

    def test_generated_service_counts_as_grpc(self):
        self.write("common/wire/a.cc", '#include "atoll/v1/job.grpc.pb.h"\n')
        self.refused(self.check, "common/wire may not see gRPC")

    def test_protobuf_outside_its_rooms(self):
        self.write("coordinator/aggregate/a.cc", '#include "atoll/v1/job.pb.h"\n')
        self.refused(self.check, "coordinator/aggregate may not see protobuf")

    def test_pure_room_with_a_clock(self):
        self.write("worker/core/a.cc", "#include <chrono>\n")
        self.refused(self.check, "worker/core is pure", "chrono")

    def test_pure_room_with_floating_point(self):
        self.write("coordinator/core/a.cc", "// a double in a comment is fine\ndouble norm = 0;\n")
        self.refused(self.check, "coordinator/core/a.cc:2", "may not use double")

    def test_main_puts_its_program_together(self):
        self.write("coordinator/main.cc", '#include "coordinator/service/service.h"\n#include "common/config/config.h"\n')
        self.accepted(self.check)
        self.write("coordinator/main.cc", '#include "worker/core/core.h"\n')
        self.refused(self.check, "may not include worker/core/core.h")

    def test_folder_without_a_row(self):
        self.write("common/misc/a.h", "\n")
        self.refused(self.check, "belongs to no room")

    def test_room_that_reaches_into_tests(self):
        self.write("common/base/a.cc", '#include "tests/unit/helper.h"\n')
        self.refused(self.check, "never one below tests")

    def test_target_linked_against_the_table(self):
        self.write("common/text/CMakeLists.txt", "atoll_room(common/text\n  SOURCES a.cc\n  ROOMS common/base\n  LIBS x)\n")
        self.accepted(self.check)
        self.write("common/text/CMakeLists.txt", "atoll_room(common/text SOURCES a.cc ROOMS common/base common/format)\n")
        self.refused(self.check, "common/text may not be linked with common/format")

    def test_table_with_a_cycle(self):
        self.write(check_includes.TABLE, '["common/a"]\nrooms = ["common/b"]\n["common/b"]\nrooms = ["common/a"]\n')
        with self.assertRaisesRegex(SystemExit, "no cycles"):
            self.check(self.folder.name)


class Proto(unittest.TestCase):
    HEAD = 'syntax = "proto3";\npackage atoll.v1;\n'
    BASE = HEAD + """
// A thing with a size.
message Thing {
  uint64 size_bytes = 1;  // bytes, at least 1
  string name = 2;  // lower case, at most 63 characters
  oneof choice { uint32 count = 3;  // how many there are
  }
  Shade shade = 4;  // absent: unspecified
}
// How dark it is drawn.
enum Shade {
  SHADE_UNSPECIFIED = 0;  // sent by nobody
  SHADE_DARK = 1;  // nearly black
}
// What is to be done.
message JobSpec {
  StopSpec stop = 1;  // When it ends. Required.
  uint32 tries = 2;  // How often, 1 to 9. Left out: 3.
}
// When a job ends.
message StopSpec {
  optional uint32 steps = 1;  // After so many. Left out: 10.
}
// What is known of a job.
message Job {
  optional double loss = 1;  // In nats. No value: nothing was measured.
}
// Keeps things for later.
service Things {
  // Returns the thing or NOT_FOUND.
  rpc GetThing(Thing) returns (Thing);
}
"""

    def compile(self, folder, name, text):
        source = pathlib.Path(folder, name, "atoll", "v1", "thing.proto")
        source.parent.mkdir(parents=True)
        source.write_text(text)
        out = f"{folder}/{name}.binpb"
        subprocess.run(["protoc", "-I", f"{folder}/{name}", "--include_source_info", f"--descriptor_set_out={out}", str(source)],
                       check=True)
        return out

    def check(self, changed):
        with tempfile.TemporaryDirectory() as folder:
            files = [self.compile(folder, "now", changed), self.compile(folder, "base", self.BASE)]
            done = subprocess.run([sys.executable, str(HERE / "check_proto.py"), *files], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    def refused(self, old, new, *words):
        self.assertIn(old, self.BASE)
        status, output = self.check(self.BASE.replace(old, new))
        self.assertEqual(status, 1)
        for word in words:
            self.assertIn(word, output)

    def accepted(self, old, new):
        self.assertIn(old, self.BASE)
        self.assertEqual(self.check(self.BASE.replace(old, new)), (0, "\n"))

    def test_unchanged_and_added(self):
        self.accepted("Shade shade", "string note = 9;  // free text, may be empty\n  Shade shade")

    def test_removed_field(self):
        line = "  string name = 2;  // lower case, at most 63 characters\n"
        self.refused(line, "", "name (number 2) is gone", "reserved 2;")
        self.refused(line, "  reserved 2;\n", 'reserved "name";')
        self.accepted(line, '  reserved 2;\n  reserved "name";\n')

    def test_renumbered_field(self):
        self.refused("string name = 2;", "string name = 7;", "name (number 2) is gone")

    def test_retyped_field(self):
        self.refused("string name = 2;", "bytes name = 2;", "from string to bytes")
        self.refused("string name = 2;", "repeated string name = 2;", "single and repeated")
        self.refused("string name = 2;", "optional string name = 2;", "optional and plain")

    def test_renamed_field(self):
        self.refused("string name = 2;", "string title = 2;", "now called title")

    def test_field_leaves_its_oneof(self):
        self.refused("oneof choice { uint32 count = 3;  // how many there are\n  }", "uint32 count = 3;  // how many there are",
                     "oneof")

    def test_enum(self):
        self.refused("  SHADE_DARK = 1;  // nearly black\n", "", "SHADE_DARK (number 1) is gone")
        self.refused("SHADE_DARK", "SHADE_DIM", "now called SHADE_DIM")
        self.refused("SHADE_UNSPECIFIED", "SHADE_NONE", "must be SHADE_UNSPECIFIED")
        self.refused("SHADE_DARK = 1;", "LIGHT = 2;  // nearly white\n  SHADE_DARK = 1;", "must begin with SHADE_")

    def test_rpc(self):
        self.refused("returns (Thing)", "returns (stream Thing)", "rpc atoll.v1.Things/GetThing changed")
        self.refused("  // Returns the thing or NOT_FOUND.\n  rpc GetThing(Thing) returns (Thing);\n", "", "is gone")

    def test_message_gone(self):
        self.refused("Thing", "Item", "message atoll.v1.Thing is gone")

    def test_comments(self):
        self.refused("  // bytes, at least 1", "", "size_bytes has no comment")
        self.refused("// A thing with a size.\n", "", "message atoll.v1.Thing has no comment")
        self.refused("  // Returns the thing or NOT_FOUND.\n", "", "rpc atoll.v1.Things/GetThing has no comment")
        self.refused("  // nearly black", "", "SHADE_DARK has no comment")

    def test_absence(self):
        silent = self.BASE
        for words in (" Required.", " Left out: 3.", "  // sent by nobody", " No value: nothing was measured."):
            self.assertIn(words, silent)
            silent = silent.replace(words, "")
        # Below JobSpec each field needs a documented default, and "No value" is none.
        silent = silent.replace("Left out: 10.", "No value: 10.")
        silent = silent.replace("  optional uint32 steps", "  uint32 tokens = 2;  // after so many\n  optional uint32 steps")
        status, output = self.check(silent)
        self.assertEqual(status, 1)
        for field in ("JobSpec.stop", "JobSpec.tries", "StopSpec.steps", "StopSpec.tokens"):
            self.assertIn(f"{field} does not say what is used when a job leaves it out", output)
        self.assertIn("Job.loss is optional and does not say", output)
        self.assertIn("SHADE_UNSPECIFIED has no comment; say who may send it", output)
        self.assertNotIn("Thing.", output)
        self.accepted("  uint32 tries = 2;  // How often, 1 to 9. Left out: 3.",
                      "  // How often, 1 to 9. Left\n  // out: 3.\n  uint32 tries = 2;")

    def test_field_name(self):
        self.refused("Shade shade = 4;", "string aName = 9;  // mixed case is refused\n  Shade shade = 4;", "lower_snake_case")


class Elf(unittest.TestCase):
    SOURCE = '#include <cstdio>\n#include <cstring>\nint main(int n, char** v) { char b[64]; std::strcpy(b, v[n - 1]); return std::puts(b); }\n'
    HARD = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-fPIE", "-pie", "-Wl,-z,relro", "-Wl,-z,now"]

    def problems(self, flags):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "a.cc"), f"{folder}/a"
            source.write_text(self.SOURCE)
            subprocess.run(["g++", "-w", *flags, str(source), "-o", program], check=True)
            return " ".join(check_elf.problems_of(program))

    def test_hardened_program_passes(self):
        self.assertEqual(self.problems(self.HARD), "")

    def test_each_lack_is_named(self):
        for flag, words in {"-no-pie": "position-independent", "-Wl,-z,lazy": "binds lazily", "-Wl,-z,norelro": "relocations",
                            "-Wl,-z,execstack": "executable stack", "-fno-stack-protector": "stack protector",
                            "-Wl,-rpath,lib": "relative folder"}.items():
            with self.subTest(flag):
                self.assertIn(words, self.problems([*self.HARD, flag]))


    def test_units_compiled_without_the_flags(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "compile_commands.json")
            path.write_text(json.dumps([{"file": "a.cc", "command": "g++ " + " ".join(check_elf.FLAGS[1:])}]))
            self.assertEqual(list(check_elf.problems_of_commands(path)), [f"a.cc is compiled without {check_elf.FLAGS[0]}"])


class Tools(unittest.TestCase):
    """The compilers' own checks, with the options of scripts/test and the presets."""

    def run_in(self, folder, source, *command, env=None):
        pathlib.Path(folder, "a.cc").write_text(source)
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)

    def test_clang_refuses_an_unlocked_access(self):
        source = ('#include "common/base/mutex.h"\nclass A {\n public:\n  int Get() { return x_; }\n  int Safe() { atl::MutexLock lock(m_); return x_; }\n'
                  " private:\n  atl::Mutex m_;\n  int x_ ATOLL_GUARDED_BY(m_) = 0;\n};\n")
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_in(folder, source, "clang++-14", "-std=c++20", f"-I{ROOT}", "-fsyntax-only", "-Wno-everything", "-Wthread-safety",
                               "-Werror=thread-safety", "a.cc")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("error: reading variable 'x_' requires holding mutex 'm_'"), 1, done.stderr)

    def test_thread_sanitizer_finds_a_race_in_spite_of_the_suppressions(self):
        source = ("#include <thread>\nint x;\nint main() {\n  std::thread a([] { for (int i = 0; i < 100000; ++i) ++x; });\n"
                  "  for (int i = 0; i < 100000; ++i) ++x;\n  a.join();\n}\n")
        options = f"ignore_noninstrumented_modules=1:suppressions={ROOT}/cmake/tsan.supp"
        with tempfile.TemporaryDirectory() as folder:
            built = self.run_in(folder, source, "g++", "-std=c++20", "-O1", "-g1", "-fsanitize=thread", "a.cc", "-o", "a")
            self.assertEqual(built.returncode, 0, built.stderr)
            plain = subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode != 0
            done = subprocess.run([*([] if plain else ["setarch", "-R"]), f"{folder}/a"], capture_output=True, text=True,
                                  env={**os.environ, "TSAN_OPTIONS": options})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("data race", done.stderr)

    def test_clang_tidy_refuses_a_use_after_move(self):
        source = "#include <string>\n#include <utility>\nstd::string F(std::string s) { std::string t = std::move(s); return s + t; }\n"
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_in(folder, source, "clang-tidy-14", "--quiet", f"--config-file={ROOT}/.clang-tidy",
                               "--warnings-as-errors=*", "--extra-arg=-w", "a.cc", "--", "-std=c++20")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("bugprone-use-after-move", done.stdout)


class Mutants(Tree):
    check = staticmethod(check_mutants.check)

    def setUp(self):
        super().setUp()
        self.write("a.cc", "int x = 1;\nint y = 2;\n")
        self.write("tests/mutants/mutants.toml", '[[mutant]]\nname = "a"\nlaw = "l"\nfile = "a.cc"\nold = "x = 1"\nnew = "x = 2"\n')

    def test_what_stands_once_passes(self):
        self.accepted(self.check)

    def test_text_that_has_gone(self):
        self.write("a.cc", "int x = 3;\n")
        self.refused(self.check, "the text of a stands 0 times in a.cc")

    def test_text_that_stands_twice(self):
        self.write("a.cc", "int x = 1;  // x = 1\n")
        self.refused(self.check, "stands 2 times")


class BareMachine(unittest.TestCase):
    """Debian's smallest system has no Python. Set-up installs it, so earlier commands must not need it."""

    def test_tier_1_begins_with_the_set_up(self):
        hidden = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount --bind /dev/null /usr/bin/python3 && exec "$@"', "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
            self.skipTest("no user or mount namespace can be had here, so /usr/bin/python3 cannot be hidden")
        with tempfile.TemporaryDirectory() as folder:
            scripts = pathlib.Path(folder, "scripts")
            scripts.mkdir()
            for name in ("test", "stages.py"):
                shutil.copy2(ROOT / "scripts" / name, scripts / name)
            setup = scripts / "setup"
            setup.write_text('#!/bin/sh\ntest -x /usr/bin/python3 && echo "python is not hidden"\necho "set-up ran"\nexit 1\n')
            setup.chmod(0o755)
            done = subprocess.run([*hidden, scripts / "test"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, "set-up ran\n0 passed, 1 failed, 0 skipped\n"), done.stderr)
        self.assertIn("stage 'setup' failed", done.stderr)


if __name__ == "__main__":
    unittest.main()
