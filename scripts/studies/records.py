"""The finished runs of the studies: docs/results/data/LABEL.json, one run a line. Reports are made of these alone."""
import json
import os
import threading


class Records:
    """The runs of one study and size. Thread-safe; every addition is on disk before `add` returns."""

    def __init__(self, study):
        self.file, self.lock = study.results / "data" / f"{study.label}.json", threading.Lock()
        self.label, self.runs = study.label, read(self.file)

    def find(self, key):
        return next((r for r in self.runs if r["key"] == key), None)

    def find_anywhere(self, key):
        """A run of these settings of this or any other study; studies have arms in common."""
        found = self.find(key)
        for file in [] if found else sorted(self.file.parent.glob("*.json")):
            other = next((r for r in read(file) if r["key"] == key), None)
            if other:
                return {"from": file.stem} | other
        return found

    def adopt(self, planned):
        """True when this study has the run now, its own or taken over from another one."""
        found = self.find_anywhere(planned.key)
        if found and (found["arm"] != planned.arm or not self.find(planned.key)):
            self.add(found | {"arm": planned.arm})
        return found is not None

    def add(self, run):
        with self.lock:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.runs = [r for r in read(self.file) if r["key"] != run["key"]] + [run]
            lines = ",\n".join(json.dumps(r) for r in self.runs)
            temporary = self.file.with_suffix(".tmp")
            temporary.write_text(f'{{"study": {json.dumps(self.label)}, "runs": [\n{lines}\n]}}\n')
            os.replace(temporary, self.file)


def read(file):
    """No runs where the file is missing, or is not a study's: other results keep their data in the same folder."""
    return json.loads(file.read_text()).get("runs", []) if file.is_file() else []
