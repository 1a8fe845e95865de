"""Mounts: whether a path lies on a file system that other machines share."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Final

_TABLE: Final = Path("/proc/mounts")  # Linux alone has it
_SHARED: Final = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|gluster|glusterfs|lustre|beegfs|ncpfs|vboxsf"
    r"|fuse\.(sshfs|glusterfs|ceph|rclone|s3fs|gcsfuse|vmhgfs-fuse)"
)


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
    above = {str(place) for place in (path, *path.parents)}
    place, kind = "", ""
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) >= 3 and (point := _unescaped(fields[1])) in above:
            # All are above the same path, so the longest is the nearest.
            place, kind = (point, fields[2]) if len(point) >= len(place) else (place, kind)
    # Sandboxes have 9p for their own root, which nobody else sees.
    is_own_root = kind == "9p" and place == "/"
    return kind if _SHARED.fullmatch(kind) and not is_own_root else None


def _unescaped(field: str) -> str:
    """Blanks and backslashes stand there as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
