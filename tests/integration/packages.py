# SPDX-License-Identifier: Apache-2.0
"""What scripts/package makes runs on a bare system: the coordinator of the Debian package, the command line of the server's archive,
one worker of the archive for CPUs and one of the wheel, in one run with mutual TLS; the OCI image by itself. The source build and the
independent reader recompute every round to the bit."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import atoll_harness
import deb_packages
import oci_image
from atoll_harness import BIN, Failure, check, equal, main
from bare_root import BareRoot, own_mounts

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 40


def package(into, *options):
    made = subprocess.run([ROOT / "scripts/package", "--build", BIN.parent, "--into", into, "--no-symbols", *options],
                          env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, capture_output=True, text=True)
    check(made.returncode == 0, f"scripts/package ended with {made.returncode}: {made.stderr}{made.stdout}")
    return {re.sub(r"[-_]?[0-9][0-9.]*[0-9].*", "", path.name) + path.suffix: path for path in into.iterdir() if not path.name.startswith("SHA256SUMS")}


def the_artifacts(scene, into):
    key = scene.path("key.pem")
    subprocess.run(("openssl", "genpkey", "-algorithm", "ed25519", "-out", key), check=True)
    subprocess.run(("openssl", "pkey", "-in", key, "-pubout", "-out", scene.path("public.pem")), check=True)
    made = package(into, "--sign", key)
    sums = into / "SHA256SUMS"
    subprocess.run(("openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", scene.path("public.pem"), "-in", sums, "-sigfile", f"{sums}.sig"), check=True, capture_output=True)
    for line in sums.read_text().splitlines():
        want, name = line.split("  ")
        equal(hashlib.sha256((into / name).read_bytes()).hexdigest(), want, f"the checksum of {name}")
    server, cpu, wheel = made["atoll-server.gz"], made["atoll.gz"], made["atoll_train.whl"]
    debian = {name: made[f"{name}.deb"] for name in deb_packages.PROGRAMS}
    for path, most_mb in ((server, 25), (cpu, 130), (wheel, 25), *zip(debian.values(), (15, 15, 130))):
        size = path.stat().st_size / 1e6
        print(f"{path.name}: {size:.1f} MB")
        check(size <= most_mb, f"{path.name} has {size:.1f} MB, more than {most_mb}")
    return server, cpu, wheel, debian, made["atoll-coordinator.tar"]


def equal_bytes(scene, into):
    """The same programs packaged again give the same bytes."""
    again = scene.path("again")
    package(again, "--only", "server,deb,image,wheel")
    for path in again.iterdir():
        if path.name != "SHA256SUMS":
            check(path.read_bytes() == (into / path.name).read_bytes(), f"{path.name} differs when it is made again")


def refuses_other_torch(root):
    """Without the PyTorch that it was linked with, the wheel's worker ends with a sentence and the command that helps."""
    def said(code):
        ran = subprocess.run(("chroot", root.folder, "/opt/venv/bin/atoll-worker", "--version"), env=os.environ | {"PYTHONPATH": "/opt/other"}, capture_output=True, text=True)
        equal(ran.returncode, code, f"the exit status of a worker that said {ran.stderr!r}")
        return ran.stderr
    check('pip install "torch==2.' in said(3), "the worker does not say how to install PyTorch")
    other = root.folder / "opt/other/torch"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('imported')\n")
    check("is no whole PyTorch" in said(3), "a PyTorch without version.py is not refused")
    (other / "version.py").write_text("__version__ = '2.10.1+cu128'\n")
    refused = said(3)
    check("2.10.1+cu128" in refused and "pip install" in refused, f"another PyTorch is refused with {refused!r}")


def install(root, scene, server, cpu, wheel, torch):
    for path in (server, cpu):
        subprocess.run(("tar", "xzf", path, "-C", root.folder / "opt"), check=True)
    root.run("/usr/bin/python3", "-m", "venv", "/opt/venv")
    root.run("/opt/venv/bin/pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
    refuses_other_torch(root)
    packages = next(pathlib.Path(root.folder / "opt/venv/lib").glob("python3*/site-packages"))
    (packages / "torch.pth").write_text(f"{torch}\n")
    bill = json.loads(next(packages.glob("atoll_train-*.dist-info/bom.json")).read_text())
    names = {one["name"] for one in bill["components"]}
    check({"libgrpc29", "libssl3", "libprotobuf32"} <= names, f"the bill of materials lacks gRPC, OpenSSL or Protocol Buffers: {sorted(names)[:20]}")
    bare = scene.path("bare")
    unpacked = {"atoll": f"/opt/{server.name.removesuffix('.tar.gz')}/bin/atoll", "atoll-coordinator": "/usr/bin/atoll-coordinator"}
    unpacked["atoll-worker"] = f"/opt/{cpu.name.removesuffix('.tar.gz')}/bin/atoll-worker"
    return root.wrappers(bare / "archives", unpacked), root.wrappers(bare / "wheel", {name: f"/opt/venv/bin/{name}" for name in ("atoll", "atoll-coordinator", "atoll-worker")})


def test(scene):
    linked = subprocess.run(("ldd", BIN / "atoll-worker"), check=True, capture_output=True, text=True).stdout
    torch = pathlib.Path(re.search(r"libtorch_cpu\.so => (/\S+)", linked).group(1)).parents[2]
    into = scene.path("dist")
    server, cpu, wheel, debian, image = the_artifacts(scene, into)
    equal_bytes(scene, into)
    oci_image.try_image(scene, image)
    root = BareRoot(scene.path("root"), ("libc6", "libstdc++6", "libgcc-s1", "python3-venv", *deb_packages.NEEDED), (scene.directory, torch))
    (root.folder / "opt").mkdir()
    before = deb_packages.install(root, debian)
    deb_packages.private_libraries(root)
    deb_packages.documents(root)
    deb_packages.services(root, scene)
    deb_packages.other_torch(root, torch)
    archives, of_wheel = install(root, scene, server, cpu, wheel, torch)

    atoll_harness.BIN = archives
    trust = scene.path("trust")
    scene.identity = scene.atoll("ca", "init", trust).out.strip()
    coordinator = scene.coordinator("--trust", trust, "--enroll-port", 0)
    manifest = scene.corpus()
    for name, programs in (("archive", archives), ("wheel", of_wheel)):
        atoll_harness.BIN = programs
        token = scene.path(f"token-{name}")
        token.write_text(scene.atoll("token", "create", "--name", name).out)
        token.chmod(0o600)
        scene.worker(name, coordinator, "--data-root", scene.path("data"), "--coordinator-enroll", f"127.0.0.1:{coordinator.ports['enroll']}", "--join-token", token)
    scene.submit("job", manifest, steps=STEPS, workers={"min": 2}, checkpoint={"every_rounds": 2, "keep_contributions": True})
    job = scene.wait_end("job")
    equal(job["state"], "JOB_STATE_SUCCEEDED", "the end of a run of packaged programs")
    mapped = {line.split()[-1] for line in pathlib.Path(f"/proc/{scene.processes[-1].pid}/maps").read_text().splitlines() if "libgomp" in line}
    equal(len(mapped), 1, f"the number of OpenMP libraries in the wheel's worker ({mapped})")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    deb_packages.upgrade(root, scene, debian["atoll-coordinator"])
    deb_packages.remove(root, before)
    deb_packages.again(root, before, "atoll-coordinator")
    atoll_harness.BIN = BIN
    scene.verify()
    equal(scene.replay()["counts"]["rounds equal"], STEPS // 10, "the rounds that the source build and the independent reader found equal")


own_mounts(sys.argv)
main(test)
