# SPDX-License-Identifier: Apache-2.0
"""An OCI image in one layer, as a tar file of an image layout (OCI image specification 1.0), without a registry or a daemon."""
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import tarfile

USER = 65532  # "nonroot" of other images without a distribution
MEDIA = "application/vnd.oci.image."
OWNED = {"var/lib/atoll": (USER, 0o700), "tmp": (0, 0o1777)}  # path: its owner and mode; any other is root's
PORTS = (7070, 7071, 7073)


def add_system(system, root):
    """Puts the C and C++ libraries, where their loader looks for them, and the users into `root`."""
    for name, path in system.items():
        folder = root / ("usr/lib64" if name.startswith("ld-linux") else "usr/lib/x86_64-linux-gnu")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
        (folder / name).chmod(0o755)
    for name in ("lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for folder in (*OWNED, "etc", "proc", "dev"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/:/sbin/nologin\natoll:x:{USER}:{USER}::/var/lib/atoll:/sbin/nologin\n")
    (root / "etc/group").write_text(f"root:x:0:\natoll:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")


def plain_tar(entries, epoch):
    """A tar file of (name, owner, mode, content): content is bytes, a link's target as text, or None for a folder."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, owner, mode, content in entries:
            entry = tarfile.TarInfo(name)
            entry.uid = entry.gid = owner
            entry.mode, entry.mtime = mode, epoch
            if isinstance(content, bytes):
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
            else:
                entry.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
                entry.linkname = content or ""
                tar.addfile(entry)
    return file.getvalue()


def entries_of(root):
    for path in sorted(pathlib.Path(root).rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            yield name, 0, 0o777, str(path.readlink())
        elif path.is_dir():
            yield name, *OWNED.get(name, (0, 0o755)), None
        else:
            yield name, 0, 0o755 if path.stat().st_mode & 0o100 else 0o644, path.read_bytes()


def image(root, name, version, command, target, epoch, time):
    """Writes the image of the folder `root`, which runs `command` as a user without rights, into the tar file `target`."""
    blobs = {}

    def descriptor(kind, content):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"{MEDIA}{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def text(value):
        return json.dumps(value, sort_keys=True).encode()

    plain = plain_tar(entries_of(root), epoch)
    layer = descriptor("layer.v1.tar+gzip", gzip.compress(plain, 6, mtime=epoch))
    labels = {"org.opencontainers.image.title": name, "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"}
    config = descriptor("config.v1+json", text({
        "created": time, "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
        "config": {"User": f"{USER}:{USER}", "Entrypoint": command[:1], "Cmd": command[1:], "Env": ["PATH=/usr/bin", "HOME=/var/lib/atoll"], "WorkingDir": "/var/lib/atoll",
                   "Volumes": {"/var/lib/atoll": {}}, "ExposedPorts": {f"{port}/tcp": {} for port in PORTS}, "StopSignal": "SIGTERM", "Labels": labels}}))
    manifest = descriptor("manifest.v1+json", text({"schemaVersion": 2, "mediaType": f"{MEDIA}manifest.v1+json", "config": config, "layers": [layer]}))
    manifest["annotations"] = {"org.opencontainers.image.ref.name": f"{name}:{version}"}
    blobs["oci-layout"] = text({"imageLayoutVersion": "1.0.0"})
    blobs["index.json"] = text({"schemaVersion": 2, "mediaType": f"{MEDIA}index.v1+json", "manifests": [manifest]})
    target.write_bytes(plain_tar(((path, 0, 0o644, content) for path, content in sorted(blobs.items())), epoch))
