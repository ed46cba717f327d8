#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/ under interrupts and impossible requests. scripts/setup runs as a copy with a folder as its
system."""

import contextlib
import fcntl
import io
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import stages  # noqa: E402
from benches import gpu, kit, page, training  # noqa: E402

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Fake system programs: the installed packages are the lines of `installed`, each in the requested version.
STAND_INS = {
    "id": "echo 0",
    "uname": "echo x86_64",
    "df": "printf 'head\\nfile 1 1 9999999\\n'",
    "nvcc": "",
    "systemctl": 'echo "$@" >> "$SYSTEM/systemctl"',
    "apt-cache": 'echo "$2 | 1.0-1 | here"',
    "apt-get": '[ "$1" = install ] || exit 0\ncp "$SYSTEM/policy" "$SYSTEM/policy-seen"\ncat "$SYSTEM/wanted" > "$SYSTEM/installed"\n. "$SYSTEM/meanwhile"',
    "dpkg-query": 'format=$3\nshift 3\nfor name; do\n  grep -qx "$name" "$SYSTEM/installed" || continue\n'
                  '  case $format in *Package*) printf "%s\\tinstalled\\t1.0-1\\n" "$name" ;; *) printf installed ;; esac\ndone',
    # pip install --target FOLDER
    "python": 'while [ "$1" != --target ]; do shift; done\nmkdir -p "$2/nvidia" "$2/some.dist-info"\necho fetched >> "$SYSTEM/fetched"',
}


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.system = pathlib.Path(folder.name)
        self.policy, self.cache = self.system / "policy", self.system / "home/.cache/atoll"
        (self.system / "bin").mkdir()
        for name, shell in STAND_INS.items():
            self.write(f"bin/{name}", f"#!/bin/sh\n{shell}\n").chmod(0o755)
        text = (ROOT / "scripts/setup").read_text()
        for path, instead in (("/usr/sbin/policy-rc.d", "policy"), ("/etc/os-release", "os-release"), ("/usr/bin/python3", "bin/python")):
            self.assertIn(path, text)
            text = text.replace(path, str(self.system / instead))
        self.write("setup", text).chmod(0o755)
        self.write("os-release", "VERSION_CODENAME=bookworm\n")
        self.write("debian-packages.txt", "cmake=1.0-1\nprometheus=1.0-1\n")
        self.write("wanted", "cmake\nprometheus\n")
        self.write("installed", "")
        self.write("meanwhile", "")  # runs while apt-get is at work
        self.complete = self.cache / "libtorch-2.11.0-cu130/.complete-cuda"
        self.complete.parent.mkdir(parents=True)
        self.complete.with_name(".complete").touch()

    def write(self, name, text):
        file = self.system / name
        file.write_text(text)
        return file

    def read(self, name):
        file = self.system / name
        return file.read_text() if file.exists() else ""

    def start(self, *options, **environment):
        environment = {"PATH": f"{self.system}/bin:/usr/bin:/bin", "HOME": f"{self.system}/home", "SYSTEM": str(self.system)} | environment
        environment = {name: value for name, value in environment.items() if value is not None}
        return subprocess.Popen([self.system / "setup", *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in SIGNALS])  # nohup and a background ignore some

    def setup(self, *options, status=0, **environment):
        process = self.start(*options, **environment)
        said = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, status, said)
        return said

    def test_no_service_starts_meanwhile_or_is_left_to_start(self):
        self.setup()
        self.assertTrue(self.read("policy-seen").startswith("#!/bin/sh\n#") and self.read("policy-seen").endswith("\nexit 101\n"), self.read("policy-seen"))
        self.assertEqual(self.read("systemctl"), "disable --quiet prometheus\n")
        self.assertFalse(self.policy.exists())

    def test_a_service_that_was_here_stays_as_it_is(self):
        self.write("installed", "prometheus\n")
        self.setup()
        self.assertIn("exit 101", self.read("policy-seen"))
        self.assertEqual(self.read("systemctl"), "")

    def test_a_policy_of_somebody_else_stays(self):
        self.policy.write_text("#!/bin/sh\nexit 101\n")
        self.setup()
        self.assertEqual(self.policy.read_text(), "#!/bin/sh\nexit 101\n")
        self.assertEqual(self.read("systemctl"), "disable --quiet prometheus\n")

    def test_an_interrupted_run_leaves_nothing(self):
        for number in SIGNALS:
            with self.subTest(number.name):
                self.write("installed", "")
                self.write("systemctl", "")
                self.write("meanwhile", f"kill -{number.value} 0\n")  # to all, as the terminal does
                self.setup(status=-number)
                self.assertIn("exit 101", self.read("policy-seen"))
                self.assertFalse(self.policy.exists())
                self.assertEqual(self.read("systemctl"), "disable --quiet prometheus\n")
                self.assertEqual(list(self.cache.glob(".setup-*")), [])

    def test_a_signal_waits_for_apt_get(self):
        self.write("meanwhile", 'kill -TERM $PPID\ncp "$SYSTEM/policy" "$SYSTEM/policy-after"\n')
        self.setup(status=-signal.SIGTERM)
        self.assertIn("exit 101", self.read("policy-after"))
        self.assertFalse(self.policy.exists())

    def test_the_next_run_ends_what_a_killed_one_began(self):
        self.write("meanwhile", "kill -KILL $PPID\n")
        self.setup(status=-signal.SIGKILL)
        self.assertTrue(self.policy.exists())
        self.assertEqual(len(list(self.cache.glob(".setup-*"))), 1)
        self.assertIn(f"missing: the end of an interrupted run, which left {self.policy}", self.setup("--check", "--no-cuda", status=1))
        self.setup()
        self.assertFalse(self.policy.exists())
        self.assertEqual(self.read("systemctl"), "disable --quiet prometheus\n")
        self.assertEqual(list(self.cache.glob(".setup-*")), [])

    def test_no_cuda_holds_until_it_is_undone(self):
        left_out = "libraries for the plugin left out, as --no-cuda asked"
        self.setup("--no-cuda", "--check", status=1)  # changes nothing
        self.write("installed", "cmake\nprometheus\n")
        self.assertIn("missing: CUDA libraries", self.setup("--check", status=1))
        for options in (["--no-cuda"], [], ["--check"]):
            self.assertIn(left_out, self.setup(*options))
        self.assertIn("missing: CUDA libraries", self.setup("--check", "--cuda", status=1))
        self.assertIn(left_out, self.setup())
        self.assertEqual(self.read("fetched"), "")
        self.setup("--cuda")
        self.complete.unlink()
        self.assertNotIn(left_out, self.setup())
        self.assertEqual(self.read("fetched"), "fetched\nfetched\n")

    def test_who_waits_says_so(self):
        with open(self.cache / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = self.start()
            self.assertEqual(process.stdout.readline(), "setup: another scripts/setup is at work; waiting for it, for half an hour at most\n")
        self.assertTrue(process.communicate(timeout=60)[0].endswith("setup: ready\n"))
        self.assertEqual(process.returncode, 0)

    def test_the_cache_is_below_home_or_refused(self):
        self.assertIn(f"present in {self.cache}", self.setup(XDG_CACHE_HOME=""))
        for home in ({"HOME": None}, {"HOME": "", "XDG_CACHE_HOME": ""}):
            self.assertEqual(self.setup(status=1, **home), "setup: error: neither HOME nor XDG_CACHE_HOME is set, and what is fetched lies below one of them; set HOME\n")


class Refusals(unittest.TestCase):
    def test_what_cannot_be_is_refused_before_anything_is_done(self):
        for words, said in {
            "study --report": "--report needs the name of a study; scripts/study --list names them",
            "study --job plain": "--job needs the name of a study",
            "soak --minutes nan": "--minutes must be finite and above 0",
            "soak --minutes inf": "--minutes must be finite and above 0",
            "simulate --hours nan": "--hours and --simulated must be finite and above 0",
            "simulate --simulated inf": "--hours and --simulated must be finite and above 0",
            "bench --pack kit.tar.gz limits": "--pack takes no benchmark, and 'limits' is one",
            "bench --take figures.json --rounds 3": "--take stands alone: nothing is measured",
            "bench --pack kit.tar.gz --report": "--report stands alone: nothing is measured",
            "simulate --bin /nonexist": "--bin: /nonexist is no program; without --bin it is built",
        }.items():
            with self.subTest(words):
                script, *options = words.split()
                done = subprocess.run([ROOT / "scripts" / script, *options], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"{script}: error: {said}", done.stderr)


class FiguresOfACard(unittest.TestCase):
    """Another machine's figures are kept in addition to this machine's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        patch = mock.patch.object(page, "DATA", self.folder)
        patch.start()
        self.addCleanup(patch.stop)

    def take(self, told):
        (self.folder / "figures.json").write_text(told)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            kit.take(self.folder / "figures.json")
        return said.getvalue()

    def test_they_take_the_place_of_those_before_and_of_nothing_else(self):
        for name in ("limits", "passes", "training"):
            (self.folder / f"performance-{name}.json").write_text('{"groups": [], "gpu": {"rounds": 1}}\n')
        sample = {"name": "copy", "bytes": 8e9, "seconds": [2.0], "cpu_seconds": [0.1]}
        card = {"rounds": 7, "commit": "0123abc", "date": "a day", "machine": {"cpu": "a processor", "cores": 2},
                "groups": [{"name": "a card", "samples": [sample]}, {"name": "kernels", "samples": [sample]}]}
        said = self.take(json.dumps({"tests": {"status": 0}, "card": card}))
        kept = {name: json.loads((self.folder / f"performance-{name}.json").read_text()) for name in ("limits", "passes", "training")}
        self.assertEqual(kept["limits"], {"groups": [], "gpu": card})
        self.assertEqual(kept["passes"], kept["limits"])
        self.assertEqual(kept["training"], {"groups": [], "gpu": {"rounds": 1}})
        self.assertIn("nothing for training, which stays as it was", said)
        self.assertIn("performance-limits, performance-passes: the GPU's figures are kept", said)

    def test_what_is_none_of_them_is_refused(self):
        for name in ("passes", "training"):
            (self.folder / f"performance-{name}.json").write_text("{}")
        for told, why in (("{", "cannot be read as what kit/run writes"), ("[]", "holds no figures of a card"), ('{"tests": {}}', "holds no figures of a card"),
                          ('{"card": {}, "tests": {"status": 1}}', "ended with status 1 on that card"),
                          ('{"training": {"groups": []}}', "no whole figures for training"), ('{"card": {"groups": [{"name": "a card"}]}}', "no figures of limits yet")):
            with self.subTest(told), self.assertRaisesRegex(SystemExit, why):
                self.take(told)
        self.assertEqual({path.read_text() for path in self.folder.glob("performance-*")}, {"{}"})


# The answers of a kit's programs.
FAKE_CARD = """#!/usr/bin/python3
import json
def sample(name): return {"name": name, "bytes": 8e9, "seconds": [2.0, 2.5], "cpu_seconds": [0.1, 0.1]}
print(json.dumps({"machine": {"cpu": "a processor", "cores": 2}, "groups": [
    {"name": "a card", "threads": 1, "samples": [sample("copy"), sample("product in bf16, 128 wide")]},
    {"name": "kernels", "threads": 1, "samples": [sample("copy"), sample("judge scores")]}]}))
"""
FAKE_TRAINING = """#!/usr/bin/python3
import json, pathlib, sys
if sys.argv[1] == "write":
    (pathlib.Path(sys.argv[2]) / "bench.json").write_text(json.dumps({"batch": 2, "length": 8, "flops_per_token": 1e6}))
else:
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"seconds": 1.0, "cpu_seconds": 1.0, "losses": [2.0 + len(sys.argv)] * int(line)}), flush=True)
"""


class Kit(unittest.TestCase):
    """What scripts/bench --pack packs, with fake programs, PyTorch and driver."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        scripts = self.folder / "kit/scripts/benches"
        scripts.mkdir(parents=True)
        for module in kit.MODULES:
            shutil.copy(ROOT / f"scripts/benches/{module}.py", scripts)
        shutil.copy(ROOT / "scripts/benches/kit_run.py", self.folder / "kit/run")
        self.program("kit/kit.json", json.dumps({"commit": "0123abc", "torch": "9.9", "cuda": "9.1", "glibc": "2.2"}))
        self.program("kit/programs/bench_gpu", FAKE_CARD)
        self.program("kit/programs/bench_training", FAKE_TRAINING)
        self.program("kit/programs/gpu_device_test", "#!/bin/sh\necho all well\n")
        self.torch("9.9+cu91", "9.1")
        self.program("bin/nvidia-smi", "#!/bin/sh\ncase $1 in -L) echo 'GPU 0: a card' ;; *) yes 90 | head -100 ;; esac\n")

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def torch(self, version, cuda):
        self.program("modules/torch/__init__.py", f"class version:\n    cuda = {cuda!r}\n__version__ = {version!r}\n")

    def ran(self, status, *more):
        path = f"{self.folder}/bin:/usr/bin:/bin"
        done = subprocess.run(["/usr/bin/python3", self.folder / "kit/run", "figures.json", "--rounds", "2", *more], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              env={"PATH": path, "PYTHONPATH": str(self.folder / "modules"), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_its_figures_stand_in_the_page(self):
        self.assertIn("all well", self.ran(0))
        told = json.loads((self.folder / "figures.json").read_text())
        self.assertEqual((told["card"]["commit"], told["training"]["commit"]), ("0123abc", "0123abc"))
        self.assertIn("| copy | 3.6 GB/s |", "\n".join(gpu.limit_lines({"gpu": told["card"]})))
        self.assertIn("| judge scores |", "\n".join(gpu.pass_lines({"gpu": told["card"]})))
        rows = [line for line in training.gpu_lines({"gpu": told["training"]}) if line.startswith("| 1")]
        self.assertEqual([[cell.strip() for cell in row.split("|")][1:3] for row in rows],
                         [[model, name] for model in ("124m", "1b") for name in ("Atoll, as a worker is by itself", "Atoll, --pass-kernels auto", "Atoll, --cuda-graph auto", "Atoll, both")])

    def test_a_failed_test_and_a_missing_card_are_told(self):
        self.program("kit/programs/gpu_device_test", "#!/bin/sh\necho not well\nexit 1\n")
        self.assertIn("not well", self.ran(1))
        self.program("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
        self.assertIn("nvidia-smi lists no GPU", self.ran(77))

    def test_what_it_cannot_run_with_is_refused(self):
        for version, cuda in (("9.8+cu91", "9.1"), ("9.9+cu92", "9.2"), ("9.9+cpu", None)):
            self.torch(version, cuda)
            self.assertIn(f"linked with PyTorch 9.9 for CUDA 9.1, and /usr/bin/python3 has {version} for {cuda}", self.ran(1))
        self.torch("9.9+cu91", "9.1")
        self.program("kit/kit.json", json.dumps({"commit": "0123abc", "torch": "9.9", "cuda": "9.1", "glibc": "99.1"}))
        self.assertIn("the programs need glibc 99.1, and this system has", self.ran(1))
        self.assertFalse((self.folder / "figures.json").exists())

    def test_a_card_that_the_programs_do_not_see_is_no_card_whose_tests_passed(self):
        self.program("kit/programs/bench_gpu", "#!/bin/sh\necho bench_gpu: no driver >&2\nexit 77\n")
        self.assertIn("a GPU that the programs cannot use: bench_gpu: no driver", self.ran(1, "--only", "tests"))

    def test_what_was_measured_before_stays(self):
        self.ran(0, "--only", "1b")
        self.ran(0, "--only", "124m")
        self.assertEqual([group["name"] for group in json.loads((self.folder / "figures.json").read_text())["training"]["models"]], ["124m", "1b"])


class Packing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_the_archive_has_the_programs_and_what_runs_them(self):
        for name in (*kit.PROGRAMS, kit.PLUGIN, kit.TESTS):
            shutil.copy("/usr/bin/curl" if shutil.which("/usr/bin/curl") else "/usr/bin/git", self.folder / name)
        with mock.patch.object(kit.gpu, "programs", return_value=self.folder), mock.patch.object(kit.machine, "built", return_value=self.folder), \
                mock.patch.object(kit, "linked_with", return_value={"torch": "9.9", "cuda": "9.1"}), contextlib.redirect_stdout(io.StringIO()) as said:
            kit.pack(self.folder / "kit.tar.gz")
        self.assertIn("PyTorch 9.9 for CUDA 9.1", said.getvalue())
        subprocess.run(["tar", "xzf", "kit.tar.gz"], cwd=self.folder, check=True)
        self.assertEqual({path.name for path in (self.folder / "kit/programs").iterdir()}, {*kit.PROGRAMS, kit.PLUGIN, kit.TESTS})
        packed = {path.name for path in (self.folder / "kit/lib").iterdir()}
        self.assertTrue(packed and not any(name.startswith(("libc.so", "libm.so", "ld-linux")) for name in packed), packed)
        self.assertRegex(json.loads((self.folder / "kit/kit.json").read_text())["glibc"], r"^2\.\d+$")
        usage = subprocess.run(["/usr/bin/python3", self.folder / "kit/run", "--help"], capture_output=True, text=True, check=True)
        self.assertIn("kit/run FIGURES.json", usage.stdout)

    def test_the_versions_are_those_of_the_libraries_that_are_linked(self):
        (self.folder / "torch/lib").mkdir(parents=True)
        (self.folder / "torch/version.py").write_text("from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n")
        told = mock.Mock(stdout=f"\tlibtorch_cpu.so => {self.folder}/torch/lib/libtorch_cpu.so (0x1)\n")
        with mock.patch.object(kit.subprocess, "run", return_value=told):
            self.assertEqual(kit.linked_with("bench_training"), {"torch": "2.11.0", "cuda": "13.0"})


class Stages(unittest.TestCase):
    def test_commands_of_a_folder_with_a_space(self):
        with tempfile.TemporaryDirectory(suffix=" with a space") as folder:
            build = pathlib.Path(folder, "build/dev")
            build.mkdir(parents=True)
            command = f'g++ -DNAME=\\"here\\" -I"{folder}" -isystem "{folder}/torch" -D_FORTIFY_SOURCE=2 -std=c++20 -o a.o -c "{folder}/a.cc"'
            (build / "compile_commands.json").write_text(json.dumps([{"file": f"{folder}/a.cc", "command": command}]))
            with mock.patch.object(stages, "ROOT", pathlib.Path(folder)), mock.patch.object(stages, "run"):
                self.assertEqual(stages.compile_commands("dev"), {"a.cc": ['-DNAME="here"', f"-I{folder}", "-isystem", f"{folder}/torch", "-std=c++20"]})


if __name__ == "__main__":
    unittest.main()
