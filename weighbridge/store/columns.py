"""What all tables are made of: text that every database can hold, counters, and the metadata.

Times are integers: microseconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Dialect, Integer, MetaData, Text, TypeDecorator

# SQLite counts a row up by itself only under the exact type INTEGER.
Counter: Final = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


class CleanText(TypeDecorator[str]):
    """Text that every database can hold, whatever a terminal or a model put into it.

    Lone surrogates cannot be encoded, and PostgreSQL has no NUL; both become U+FFFD, in stored
    values and in the values searched for alike. JSON needs no such care: it is stored in ASCII.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """What is sent to the database in place of `value`."""
        if value is None:
            return None
        # UTF-16 is the encoding in which a surrogate pair and the character it stands for agree.
        clean = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return clean.replace("\0", "\ufffd")
