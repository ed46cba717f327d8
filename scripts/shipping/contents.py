# SPDX-License-Identifier: Apache-2.0
"""What the shipped files are made of: licences, and a bill of materials (CycloneDX 1.5)."""
import functools
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import uuid

from shipping import elf

HEADERS_ONLY = ("libcli11-dev", "nlohmann-json3-dev", "libboost-dev", "libsentencepiece-dev", "libzstd-dev")  # and static libraries
WHEELS = {"libtorch": "torch", "libc10": "torch", "libcudart": "nvidia_cuda_runtime", "libcupti": "nvidia_cuda_cupti"}


@functools.cache
def package_of(path):
    """(name, version) of the Debian package that owns `path`."""
    for candidate in (path, pathlib.Path("/usr") / path.relative_to("/"), pathlib.Path("/", *path.parts[2:]) if path.parts[1] == "usr" else path):
        try:
            name = elf.output("dpkg", "-S", candidate).split(":")[0]
            return name, version_of(name)
        except subprocess.CalledProcessError:
            continue
    sys.exit(f"package: error: no Debian package owns {path}; its licence and version are not known")


@functools.cache
def version_of(package):
    return elf.output("dpkg-query", "-W", "-f=${Version}", package)


def wheel_of(path):
    """(name, version, folder of its metadata) of the Python wheel that `path` was unpacked from."""
    name = next(wheel for prefix, wheel in WHEELS.items() if path.name.startswith(prefix))
    folder = next(parent for parent in path.parents if list(parent.glob(f"{name}-*.dist-info")))
    info = next(folder.glob(f"{name}-*.dist-info"))
    return name, re.match(rf"{name}-(.+)\.dist-info", info.name).group(1), info


def materials(needed):
    """[{name, version, purl, licences}] of what is in the shipped files, for libraries as stage.programs returns them."""
    debian = {package_of(path) for name, path in needed.items() if not re.match(elf.OF_TORCH, name)}
    debian |= {(name, version_of(name)) for name in HEADERS_ONLY}
    found = [{"name": name, "version": version, "purl": f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch=amd64&distro=debian-12",
              "licences": [pathlib.Path(f"/usr/share/doc/{name}/copyright")]} for name, version in debian]
    for name, version, info in {wheel_of(path) for library, path in needed.items() if re.match(elf.OF_TORCH, library)}:
        texts = sorted(path for path in info.rglob("*") if path.is_file() and re.match(r"(LICEN[SC]E|NOTICE|License)", path.name))
        found.append({"name": name, "version": version, "purl": f"pkg:pypi/{name.replace('_', '-')}@{version}", "licences": texts})
    return sorted(found, key=lambda one: one["name"])


def write_licences(found, project, folder):
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(project / "LICENSE", folder / "atoll.txt")
    for one in found:
        texts = [path.read_text(errors="replace") for path in one["licences"] if path.exists()]
        if not texts:
            sys.exit(f"package: error: no licence text of {one['name']} was found: {one['licences']}")
        (folder / f"{one['name']}.txt").write_text("\n\n".join(texts))


def bill(name, version, found, root, time):
    """The bill of materials of the folder `root` as JSON text: packages, and each file with its hash."""
    components = [{"type": "library", "name": one["name"], "version": one["version"], "purl": one["purl"], "bom-ref": one["purl"]} for one in found]
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    components += [{"type": "file", "name": str(path.relative_to(root)), "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]} for path in files]
    seed = json.dumps(components, sort_keys=True)
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, seed)}", "version": 1,
                       "metadata": {"timestamp": time, "component": {"type": "application", "name": name, "version": version, "bom-ref": name}},
                       "components": components}, indent=1) + "\n"
