# SPDX-License-Identifier: Apache-2.0
"""The finished runs of the studies: docs/results/data/LABEL.json, one run per line. Reports use only these."""
import json
import os
import threading


class Records:
    """The runs of one study and size. Thread-safe; every addition is on disk before `add` returns."""

    def __init__(self, study):
        self.file, self.lock = study.results / "data" / f"{study.label}.json", threading.Lock()
        self.label, self.runs = study.label, read(self.file)

    def find(self, planned, start=None):
        """A run with these settings; with this start, if one is given and the run has one."""
        return fitting(self.runs, planned, start)

    def find_anywhere(self, planned, start=None):
        """Same, in this or any other study; studies have arms in common."""
        found = self.find(planned, start)
        for file in [] if found else sorted(self.file.parent.glob("*.json")):
            other = fitting(read(file), planned, start)
            if other:
                return {"from": file.stem} | other
        return found

    def adopt(self, planned, start=None):
        """The run, which now belongs to this study, its own or copied from another one; or None."""
        found = self.find_anywhere(planned, start)
        if found and (found["arm"] != planned.arm or not self.find(planned, start)):
            self.add(found | {"arm": planned.arm})
        return found

    def add(self, run):
        with self.lock:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.runs = [r for r in read(self.file) if r["key"] != run["key"]] + [run]
            lines = ",\n".join(json.dumps(r) for r in self.runs)
            temporary = self.file.with_suffix(".tmp")
            temporary.write_text(f'{{"study": {json.dumps(self.label)}, "runs": [\n{lines}\n]}}\n')
            os.replace(temporary, self.file)


def fitting(runs, planned, start):
    return next((r for r in runs if r["key"] == planned.key and (start is None or not planned.start or r.get("start") == start)), None)


def starts_of(runs):
    """The initial parameters of runs, by a prefix of their SHA-256. The same pretraining gives different ones on
    another processor, and runs of different starts are not compared."""
    return sorted({r["start"] for r in runs if r.get("start")})


def read(file):
    """No runs if the file is missing or not a study's: other results keep their data in the same folder."""
    return json.loads(file.read_text()).get("runs", []) if file.is_file() else []
