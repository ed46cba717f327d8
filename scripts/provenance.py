# SPDX-License-Identifier: Apache-2.0
"""What was run where: the commit, the day and the machine, as reports tell them."""
import datetime
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commit():
    """Of the tree; ATOLL_COMMIT says what the programs were built from where that is another. Empty where neither is known."""
    head = subprocess.run(["git", "-c", "safe.directory=*", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True).stdout.strip()
    return os.environ.get("ATOLL_COMMIT", head)


def provenance():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"commit": commit(), "date": datetime.date.today().isoformat(),
            "machine": f"{os.cpu_count()} cores, {model.group(1) if model else platform.processor()}"}
