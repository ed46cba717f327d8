# SPDX-License-Identifier: Apache-2.0
"""Archives whose bytes depend on the names and contents of their files alone."""
import base64
import gzip
import hashlib
import pathlib
import shutil
import tarfile
import time
import zipfile


def files_below(root):
    return [path for path in sorted(pathlib.Path(root).rglob("*")) if not path.is_dir()]


def tarball(root, name, target, epoch):
    """Writes the files below `root` into the .tar.gz `target`, in a folder `name`."""
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=epoch) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in files_below(root):
            entry = tar.gettarinfo(path, f"{name}/{path.relative_to(root)}")
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = epoch
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            if entry.isfile():
                with open(path, "rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)


def wheel(root, name, version, target, epoch):
    """Writes the files below `root` into the wheel `target` (PEP 427), with its RECORD."""
    record = f"{name}-{version}.dist-info/RECORD"
    lines = []
    date = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        def add(arcname, mode, content):
            entry = zipfile.ZipInfo(arcname, date)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)
        for path in files_below(root):
            arcname, content = str(path.relative_to(root)), path.read_bytes()
            add(arcname, 0o755 if path.stat().st_mode & 0o100 else 0o644, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{arcname},sha256={digest},{len(content)}")
        add(record, 0o644, "\n".join([*lines, f"{record},,", ""]))


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
