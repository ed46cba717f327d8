# SPDX-License-Identifier: Apache-2.0
"""Commit, day and machine of a run, as stated in reports."""
import datetime
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commit():
    """Commit of the tree; ATOLL_COMMIT overrides it when the programs were built from another one. Empty if neither is known."""
    head = subprocess.run(["git", "-c", "safe.directory=*", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True).stdout.strip()
    return os.environ.get("ATOLL_COMMIT", head)


def provenance():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"commit": commit(), "date": datetime.date.today().isoformat(),
            "machine": f"{os.cpu_count()} cores, {model.group(1) if model else platform.processor()}"}
