# SPDX-License-Identifier: Apache-2.0
"""Memory shared by a test and a preloaded library: a page in a file that the library maps (preload.h)."""
import struct

from atoll_harness import BIN, Skip


def refuse_without(library):
    if not (BIN / library).exists():
        raise Skip(f"{library} is not built")


class SharedPage:
    """For processes started with `environment`; the library finds the file by `variable`."""

    def __init__(self, path, library, variable, content):
        self.path, self.environment = path, {"LD_PRELOAD": str(BIN / library), variable: str(path)}
        path.write_bytes(content)

    def write(self, form, *values):
        """Writes from its beginning, in place: the process has it mapped."""
        with open(self.path, "r+b") as file:
            file.write(struct.pack(form, *values))

    def read(self, form, offset=0):
        return struct.unpack_from(form, self.path.read_bytes(), offset)
