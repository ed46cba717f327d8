# SPDX-License-Identifier: Apache-2.0
"""The OCI image of scripts/package, read back as a container engine reads it, and run without rights and with a read-only
root; for packages.py."""
import gzip
import hashlib
import io
import json
import subprocess
import tarfile

from atoll_harness import check, equal, wait_for

MOST_MB = 60


class Layout:
    """The blobs of an image layout, each checked against its name."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {member.name: tar.extractfile(member).read() for member in tar.getmembers()}
        equal(json.loads(self.files["oci-layout"]), {"imageLayoutVersion": "1.0.0"}, "the version of the image layout")

    def blob(self, descriptor):
        content = self.files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        equal((f"sha256:{hashlib.sha256(content).hexdigest()}", len(content)), (descriptor["digest"], descriptor["size"]), "digest and size of a blob")
        return content


def unpack(path, root):
    """Unpacks the image into `root` and returns its configuration."""
    layout = Layout(path)
    (described,) = json.loads(layout.files["index.json"])["manifests"]
    manifest = json.loads(layout.blob(described))
    config = json.loads(layout.blob(manifest["config"]))
    (layer,) = manifest["layers"]
    plain = gzip.decompress(layout.blob(layer))
    equal(config["rootfs"]["diff_ids"], [f"sha256:{hashlib.sha256(plain).hexdigest()}"], "the digest of the unpacked layer")
    root.mkdir()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        tar.extractall(root, numeric_owner=True)
    return config["config"]


def try_image(scene, path):
    check(path.stat().st_size / 1e6 <= MOST_MB, f"{path.name} has more than {MOST_MB} MB")
    root = scene.path("image")
    config = unpack(path, root)
    check(config["User"] not in ("", "0", "0:0", "root"), "the image runs as root")
    names = {one["name"] for one in json.loads((root / "usr/share/doc/atoll/bom.json").read_text())["components"]}
    check({"libc6", "libstdc++6", "libgrpc29", "libssl3"} <= names, "the image's bill of materials lacks a library")
    for command in (("--bind", root, root), ("--bind", "/proc", root / "proc"), ("--bind", "/dev", root / "dev"), ("--bind", root / "var/lib/atoll", root / "var/lib/atoll"),
                    ("-o", "remount,bind,ro", root)):
        subprocess.run(("mount", *command), check=True)
    inside = ("chroot", f"--userspec={config['User']}", root, "/usr/bin/atoll")
    made = subprocess.run((*inside, "ca", "init", "/var/lib/atoll/trust"), capture_output=True, text=True)
    equal(made.returncode, 0, f"the exit status of atoll ca init in the image, {made.stderr}")
    (root / "var/lib/atoll/data").mkdir(mode=0o755)
    ports = root / "var/lib/atoll/ports.json"
    any_port = [word for name in ("control", "bulk", "admin", "enroll") for word in (f"--{name}-port", "0")]
    coordinator = scene.start("image", (*inside[:-1], *config["Entrypoint"], *config["Cmd"], *any_port, "--ports-file", "/var/lib/atoll/ports.json"))
    wait_for("the coordinator of the image", ports.exists, alive=(coordinator,))
    equal(coordinator.terminate(), 0, "the end of the coordinator of the image")
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, runs as {config['User']}")
