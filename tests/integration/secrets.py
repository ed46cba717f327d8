# SPDX-License-Identifier: Apache-2.0
"""Real coordinator, workers and command line at the most verbose level, used rightly, wrongly and killed by SIGABRT:
no join token, no private key and no island secret appears in any log, event, page, state file, process listing or
core dump, only in the files made for them.

S22.
"""
import base64
import hashlib
import os
import pathlib
import re
import resource
import signal
import subprocess

from atoll_harness import check, equal, free_port, main, program, wait_for

ISLAND_SECRET = "planted-island-secret-0123456789"
OTHER_SECRET = "planted-other-secret-9876543210"
TALK = ["--log-level", "debug"]
USAGE, FAILED, FORBIDDEN = 2, 3, 4


# ---- what is looked for

def spellings(raw):
    """Bytes as a careless program would print them."""
    hexed = raw.hex().encode()
    return {raw, hexed, hexed.upper(), base64.b64encode(raw).rstrip(b"="), base64.urlsafe_b64encode(raw).rstrip(b"=")}


def body_of(token):
    return base64.urlsafe_b64decode(token[len("atoll1-"):] + "===")


def spellings_of_token(text):
    """The text, and the secret in it (docs/formats/join-token.md)."""
    return {text.encode()} | spellings(body_of(text)[40:56])


def spellings_of_key(pem):
    """Each line of the key's text, and the number itself, which DER stores after 04 20."""
    lines = re.search(r"-----BEGIN (?:EC )?PRIVATE KEY-----\n(.*?)-----END", pem, re.DOTALL).group(1).split()
    der = base64.b64decode("".join(lines))
    at = der.index(b"\x04\x20") + 2
    # The first line is the same in every key of a curve.
    return {line.encode() for line in lines[1:]} | spellings(der[at:at + 32])


class Planted:
    def __init__(self):
        self.secrets = {}  # name: its spellings
        self.homes = set()  # files that are made for a secret

    def plant(self, name, file, forms):
        self.secrets[name] = forms
        self.homes.add(file)
        return file

    def token(self, name, file):
        return self.plant(name, file, spellings_of_token(file.read_text().strip()))

    def key(self, name, file):
        return self.plant(name, file, spellings_of_key(file.read_text()))

    def look(self, where, content):
        for name, forms in self.secrets.items():
            check(not any(form in content for form in forms), f"{where} holds {name}")

    def look_below(self, directory):
        """Searches every file except the homes; returns their number. The search must find each secret in its home,
        or it proves nothing."""
        files = [f for f in directory.rglob("*") if f.is_file() and not f.is_symlink()]
        for file in files:
            if file not in self.homes:
                self.look(file.relative_to(directory), file.read_bytes())
        for home in self.homes:
            content = home.read_bytes()
            check(any(form in content for forms in self.secrets.values() for form in forms), f"{home} is not found to hold its secret")
            equal(home.stat().st_mode & 0o077, 0, f"what others may do with {home}")
        return len(files)

    def look_at_process(self, process):
        for name in ("cmdline", "environ"):
            try:
                shown = pathlib.Path(f"/proc/{process.pid}/{name}").read_bytes()
            except PermissionError:  # not even the same user
                continue
            self.look(f"{name} of {process.name}", shown)
        limits = pathlib.Path(f"/proc/{process.pid}/limits").read_text()
        equal(re.search(r"Max core file size\s+(\S+)", limits).group(1), "0", f"the limit of core dumps of {process.name}")


# ---- core dumps

def abort(process):
    """SIGABRT; returns whether the kernel wrote a core dump."""
    process.send_signal(signal.SIGABRT)
    ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.wait()
    equal(ended.si_status, signal.SIGABRT, "what ended it")
    return ended.si_code == os.CLD_DUMPED


def dumps_are_possible():
    """True if an unprotected process leaves a core dump here; otherwise the absence of dumps proves nothing."""
    dumped = abort(subprocess.Popen(["sleep", "1000"]))
    for core in pathlib.Path.cwd().glob("core*"):
        core.unlink()
    return dumped


# ---- right and wrong use

def token(scene, planted, name, *options):
    file = scene.path(f"{name}.token")
    file.touch(0o600)
    file.write_text(scene.atoll("token", "create", *options).out)
    return planted.token(f"the {name} token", file)


def tell(planted, ran, *words):
    """A refusal: it has these words, and no secret."""
    said = ran.out + ran.err
    planted.look("what the program said", said.encode())
    for word in words:
        check(word in said, f"no word of '{word}': {said}")


def wrong_uses(scene, planted, at, used):
    """Common mistakes with a token or a key."""
    enrol = ["enroll", "--at", at, "--name", "eve", "--out", scene.path("eve.pem"), "--join-token"]
    tell(planted, scene.atoll(*enrol, used, code=FORBIDDEN), "which is spent")
    short = token(scene, planted, "short-lived", "--lifetime", "1s", "--uses", "1000", "--role", "viewer")

    def late():
        scene.path("late.pem").unlink(missing_ok=True)
        ran = scene.atoll("enroll", "--at", at, "--name", "late", "--join-token", short, "--out", scene.path("late.pem"), code=None)
        return ran.code and ran
    tell(planted, wait_for("the end of a token", late), "expired at")
    # Another secret of a valid form, and one wrong letter.
    body = bytearray(body_of(used.read_text().strip()))
    body[41] ^= 1
    forged = scene.path("forged.token")
    forged.touch(0o600)
    forged.write_text("atoll1-" + base64.urlsafe_b64encode(bytes(body[:-4]) + hashlib.sha256(body[:-4]).digest()[:4]).decode().rstrip("="))
    tell(planted, scene.atoll(*enrol, planted.token("a forged token", forged), code=FORBIDDEN), "not known")
    mistyped = scene.path("mistyped.token")
    mistyped.touch(0o600)
    mistyped.write_text(used.read_text().strip()[:-1] + "#\n")
    planted.plant("a mistyped token", mistyped, {mistyped.read_bytes().strip()})
    tell(planted, scene.atoll(*enrol, mistyped, code=None), "mistyped or incomplete")
    # A token in place of a file, a key in place of a token, and both in place of a job, a setting or a corpus.
    tell(planted, scene.atoll(*enrol, used.read_text().strip(), code=None), "but it is a token", "token revoke")
    worker = ["atoll-worker", "--name", "eve", "--coordinator", at, *TALK]
    tell(planted, scene.run(*worker, "--join-token", used.read_text().strip(), code=USAGE), "but it is a token")
    tell(planted, scene.run(*worker, code=USAGE, ATOLL_WORKER_JOIN_TOKEN=used.read_text().strip()), "but it is a token")
    for wrong in (used, scene.identity):
        tell(planted, scene.atoll(*enrol, scene.identity, code=None), "join token")
        tell(planted, scene.atoll("job", "submit", wrong, code=None))
        tell(planted, scene.run(*worker, "--config", wrong, code=USAGE))
        tell(planted, scene.atoll("data", "inspect", wrong, code=None))
    tell(planted, scene.atoll("job", "list", ATOLL_IDENTITY=str(used), code=None))


def ranks(scene, coordinator, enrol, join_token, port, secret):
    """Starts an island of two, as a launcher does. The second rank gets `secret`; the first has ISLAND_SECRET."""
    for rank, told in ((0, ISLAND_SECRET), (1, secret)):
        command = [program("atoll-worker"), "--name", "c", "--coordinator", f"127.0.0.1:{coordinator.ports['control']}",
                   "--coordinator-bulk", f"127.0.0.1:{coordinator.ports['bulk']}", "--coordinator-enroll", enrol, "--join-token",
                   join_token, "--threads", "1", "--device", "cpu", "--cache-dir", scene.path("cache-c"), "--no-admin", *TALK]
        yield scene.start(f"c-{rank}-{secret[8:13]}", command, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), ATOLL_ISLAND_SECRET=told)


def test(scene):
    os.chdir(scene.directory)  # where core dumps are written
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    dumps = dumps_are_possible()
    scene.debuggable = False
    planted = Planted()
    planted.secrets["the island's secret"] = {ISLAND_SECRET.encode()}
    planted.secrets["another island's secret"] = {OTHER_SECRET.encode()}
    manifest = scene.corpus()
    scene.identity = planted.key("the admin's key", pathlib.Path(scene.atoll("ca", "init", scene.path("trust")).out.strip()))
    planted.key("the authority's key", scene.path("trust/ca-key.pem"))
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--data-root", scene.path("data"), *TALK)
    planted.key("the coordinator's key", scene.path("state/coordinator.pem"))
    at = f"127.0.0.1:{coordinator.ports['enroll']}"

    join = token(scene, planted, "worker", "--uses", "2")
    worker = scene.worker("a", coordinator, "--coordinator-enroll", at, "--join-token", join, *TALK)
    scene.submit("job", manifest, steps=100_000)
    scene.wait_round("job", 2, alive=[worker])
    planted.key("the worker's key", scene.path("cache-a/identity.pem"))
    operator = token(scene, planted, "operator", "--role", "operator", "--name", "bob")
    scene.atoll("enroll", "--at", at, "--join-token", operator, "--out", scene.path("bob.pem"), "--name", "bob")
    planted.key("the operator's key", scene.path("bob.pem"))
    wrong_uses(scene, planted, at, operator)

    port = free_port()
    leader, follower = ranks(scene, coordinator, at, join, port, OTHER_SECRET)
    check(follower.end() != 0, "a rank with another secret came in")
    check("the secrets differ" in follower.log(), follower.log())
    leader.kill()
    leader, follower = ranks(scene, coordinator, at, join, port, ISLAND_SECRET)
    wait_for("the island to meet", lambda: "island connected" in leader.log(), alive=[leader, follower])
    planted.key("the island's key", scene.path("cache-c/identity.pem"))
    for process in (coordinator, worker, leader, follower):
        planted.look_at_process(process)
    for page in ("/metrics", "/healthz", "/readyz", "/"):
        planted.look(f"{page} of the coordinator", coordinator.page(page).encode())
    planted.look("/metrics of the worker", worker.page("/metrics").encode())
    for told in (["job", "logs", "job"], ["job", "logs", "job", "--worker", "a"], ["token", "list"], ["worker", "list", "-o", "json"],
                 ["ca", "show", scene.path("bob.pem")], ["job", "describe", "job", "-o", "json"]):
        planted.look(f"atoll {' '.join(map(str, told))}", scene.atoll(*told).out.encode())

    for process in (worker, leader, coordinator):
        check(not abort(process.popen), f"{process.name} has left a core dump, which holds its keys")
    equal([core.name for core in scene.directory.rglob("core*") if core.is_file()], [], "core dumps")
    files = planted.look_below(scene.directory)
    print(f"{len(planted.secrets)} secrets in {files} files, {len(planted.homes)} of them made for one; "
          f"a process that holds no key {'leaves' if dumps else 'leaves no'} core dump here")


main(test)
