"""Times as the tables hold them: whole microseconds since 1970, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_MICROSECOND: Final = timedelta(microseconds=1)


def moment(us: int) -> datetime:
    """Microseconds since 1970 as a time in UTC.

    >>> moment(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    # Not fromtimestamp: a float of seconds does not hold every microsecond.
    return EPOCH + us * _MICROSECOND


def microseconds(time: datetime) -> int:
    """Microseconds since 1970.

    Raises:
        ValueError: the time has no time zone, so nobody knows when it is.
    """
    if time.tzinfo is None:
        raise ValueError("want a time with a time zone")
    return (time - EPOCH) // _MICROSECOND
