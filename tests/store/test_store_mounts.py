"""File systems that several machines share, where SQLite must not be trusted."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import PurePosixPath

import pytest

from weighbridge.store import sqlite
from weighbridge.store.database import Database
from weighbridge.store.mounts import shared_file_system

TABLE = r"""sysfs /sys sysfs rw 0 0
/dev/sda1 / ext4 rw,relatime 0 0
server:/export /mnt/nfs nfs4 rw,vers=4.2 0 0
//server/share /mnt/with\040blank cifs rw 0 0
drvfs /mnt/c 9p rw,aname=drvfs 0 0
ann@host: /mnt/ssh fuse.sshfs rw 0 0
/dev/sdb1 /mnt/nfs/local xfs rw 0 0
server:/export /mnt/twice nfs rw 0 0
/dev/sdc1 /mnt/twice ext4 rw 0 0
portal /run/portal fuse.portal rw 0 0
garbage
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/mnt/nfs/queue.db", "nfs4"),
        ("/mnt/nfs/a/b/queue.db", "nfs4"),
        ("/mnt/with blank/queue.db", "cifs"),
        ("/mnt/c/Users/queue.db", "9p"),
        ("/mnt/ssh/queue.db", "fuse.sshfs"),
    ],
)
def test_file_on_a_network_is_known_by_its_nearest_mount(path, kind):
    assert shared_file_system(PurePosixPath(path), TABLE) == kind


@pytest.mark.parametrize(
    "path",
    [
        "/home/ann/queue.db",
        "/mnt/nfs/local/queue.db",  # a disk below a network
        "/mnt/nfsother/queue.db",  # only begins like one
        "/mnt/twice/queue.db",  # the later mount hides the earlier
        "/run/portal/queue.db",
    ],
)
def test_file_on_a_disk_is_not(path):
    assert shared_file_system(PurePosixPath(path), TABLE) is None


@pytest.mark.parametrize("table", ["", "runsc / 9p rw,trans=fd 0 0\n"])
def test_nothing_is_known_where_no_table_is_or_a_sandbox_has_its_own_root(table):
    assert shared_file_system(PurePosixPath("/home/ann/queue.db"), table) is None


@pytest.mark.parametrize(("kind", "num_warnings"), [("nfs4", 1), ("ext4", 0)])
def test_opening_warns_once_of_a_network(tmp_path, monkeypatch, caplog, kind, num_warnings):
    """It opens all the same: one machine alone may well use it."""
    monkeypatch.setattr(sqlite, "mount_table", lambda: f"x / ext4 rw 0 0\nx {tmp_path} {kind} rw\n")
    for _ in range(2):
        with closing(Database(f"sqlite:///{tmp_path}/weighbridge.db")):
            pass
    assert len(caplog.records) == num_warnings
    for record in caplog.records:
        assert record.levelno == logging.WARNING
        assert "PostgreSQL" in record.getMessage()
        assert "weighbridge.db" in record.getMessage()
