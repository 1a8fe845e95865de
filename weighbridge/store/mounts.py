"""Mounts: what file system a path lies on, and whether other machines share it."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Final

_TABLE: Final = Path("/proc/mounts")  # Linux alone has it
_SHARED: Final = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|gluster|glusterfs|lustre|beegfs|ncpfs|vboxsf"
    r"|fuse\.(sshfs|glusterfs|ceph|rclone|s3fs|gcsfuse|vmhgfs-fuse)"
)

# Those of Linux that keep a file's number on the disk, or with it in memory.
_NUMBERED: Final = re.compile(r"ext[234]|xfs|btrfs|zfs|f2fs|jfs|bcachefs|tmpfs|overlay")


def mount_table() -> str:
    """What is mounted where, as Linux tells it; empty on other systems."""
    try:
        return _TABLE.read_text("utf-8", "replace")
    except OSError:
        return ""


def shared_file_system(path: PurePath, table: str) -> str | None:
    r"""The type of the file system under `path` if it is one over a network; None otherwise.

    Args:
        path: absolute, links resolved.
        table: as `mount_table` gives it, see proc_mounts(5); what is mounted later hides earlier
            mounts of the same place.

    Example:
        >>> table = "/dev/sda / ext4 rw 0 0\nserver:/data /home/ann nfs4 rw 0 0"
        >>> shared_file_system(PurePath("/home/ann/queue.db"), table)
        'nfs4'
        >>> shared_file_system(PurePath("/home/bob/queue.db"), table)
    """
    place, kind = _nearest(path, table)
    # Sandboxes have 9p for their own root, which nobody else sees.
    is_own_root = kind == "9p" and place == "/"
    return kind if _SHARED.fullmatch(kind) and not is_own_root else None


def keeps_file_numbers(path: PurePath, table: str) -> bool:
    r"""Whether a file under `path` has one inode number for life; False where that is not known.

    Args:
        path: absolute, links resolved.
        table: as `mount_table` gives it.

    Example:
        >>> table = "/dev/sda / ext4 rw 0 0\nann@server: /home/ann fuse.sshfs rw 0 0"
        >>> keeps_file_numbers(PurePath("/home/bob/queue.db"), table)
        True
        >>> keeps_file_numbers(PurePath("/home/ann/queue.db"), table)
        False
    """
    return bool(_NUMBERED.fullmatch(_nearest(path, table)[1]))


def _nearest(path: PurePath, table: str) -> tuple[str, str]:
    """Place and type of the mount that a path lies on; two empty ones if none is known."""
    above = {str(place) for place in (path, *path.parents)}
    place, kind = "", ""
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) >= 3 and (point := _unescaped(fields[1])) in above:
            # All are above the same path, so the longest is the nearest.
            place, kind = (point, fields[2]) if len(point) >= len(place) else (place, kind)
    return place, kind


def _unescaped(field: str) -> str:
    """Blanks and backslashes stand there as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
