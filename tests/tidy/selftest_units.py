#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_units.py refuses each planted violation."""

import shutil
import unittest

import check_units
from selftest import Tree

INSTALL = """
    runuser -u atoll -- /bin/atoll-worker check \\
        --config /etc/atoll/worker.yaml
"""

BACKUP = """
`0 3 * * * nice /bin/atoll-backup /var/lib/atoll/state /mnt 7`
"""


RESTRICTED = """
ProtectSystem=strict
ReadWritePaths=/var/lib/atoll
ProtectHome=yes
PrivateTmp=yes
NoNewPrivileges=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET
SystemCallFilter=@system-service
CapabilityBoundingSet=
"""


class Units(Tree):
    check = staticmethod(check_units.check)

    def setUp(self):
        super().setUp()
        self.unit(check_units.COORDINATOR, "/bin/atoll-coordinator --config /etc/atoll/coordinator.yaml")
        self.unit(check_units.WORKER, "/bin/atoll-worker --config /etc/atoll/worker.yaml")
        self.write(check_units.OPTIONS[check_units.COORDINATOR], "state-dir: /var/lib/atoll/state\n")
        self.write(check_units.OPTIONS[check_units.WORKER], "identity: /var/lib/atoll/identity.pem\n")
        self.unit(check_units.BACKUP, "/bin/atoll-backup /var/lib/atoll/state /mnt 7")
        self.pages()

    def pages(self, install=INSTALL, backup=BACKUP):
        for page, text in zip(check_units.PAGES, (install, backup)):
            self.write(page, text)

    def unit(self, path, command, user="atoll", more=RESTRICTED):
        self.write(path, f"[Service]\nUser={user}\nExecStart={command}\n{more}")

    def test_agreement_passes(self):
        self.accepted(self.check)

    def test_a_backup_of_another_directory(self):
        self.unit(check_units.BACKUP, "/bin/atoll-backup /var/lib/atoll /mnt 7")
        self.refused(self.check, "atoll-backup.service: backs up /var/lib/atoll,", "state-dir: /var/lib/atoll/state")

    def test_a_crontab_of_another_directory(self):
        self.pages(backup=BACKUP.replace("/state /mnt", " /mnt"))
        self.refused(self.check, "backup.md: backs up /var/lib/atoll,")

    def test_a_page_without_a_crontab(self):
        self.pages(backup=BACKUP.replace("atoll-backup", "backup"))
        self.refused(self.check, "no line of a crontab")

    def test_a_unit_of_another_user(self):
        self.unit(check_units.BACKUP, "/bin/atoll-backup /var/lib/atoll/state /mnt 7", user="other")
        self.refused(self.check, "the units have different users")

    def test_a_check_with_other_options_than_the_worker(self):
        self.pages(install=INSTALL.replace("worker.yaml", "check.yaml"))
        self.refused(self.check, "the check before a worker joins is not", "--config /etc/atoll/worker.yaml")

    def test_a_check_by_another_user_than_the_worker(self):
        self.pages(install=INSTALL.replace("-u atoll", "-u root"))
        self.refused(self.check, "runuser -u root", "User=atoll")

    def test_a_state_that_the_unit_may_not_write(self):
        command = "/bin/atoll-coordinator --config /etc/atoll/coordinator.yaml"
        self.unit(check_units.COORDINATOR, command, more=RESTRICTED.replace("=/var/lib/atoll", "=/srv /var/lib/atoll"))
        self.accepted(self.check)
        self.unit(check_units.COORDINATOR, command, more=RESTRICTED.replace("=/var/lib/atoll", "=/var/lib/atoll/data"))
        self.refused(self.check, "state-dir /var/lib/atoll/state is not below ReadWritePaths, /var/lib/atoll/data")

    def test_a_worker_without_a_gpu(self):
        self.unit(check_units.WORKER, "/bin/atoll-worker --config /etc/atoll/worker.yaml", more=RESTRICTED + "PrivateDevices=yes\n")
        self.refused(self.check, "PrivateDevices hides the device files of a GPU")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_a_unit_without_restrictions(self):
        self.unit(check_units.BACKUP, "/bin/atoll-backup /var/lib/atoll/state /mnt 7", more="")
        self.refused(self.check, "atoll-backup.service: systemd-analyze security says 9.", "more than 3.0")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_a_unit_that_systemd_does_not_understand(self):
        self.unit(check_units.BACKUP, "/bin/atoll-backup /var/lib/atoll/state /mnt 7", more=RESTRICTED + "Restrat=on-failure\n")
        self.refused(self.check, "systemd-analyze verify says", "Restrat")


if __name__ == "__main__":
    unittest.main()
