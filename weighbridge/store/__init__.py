"""The database: the one home of SQLAlchemy. Everything that lasts is kept through it."""

from weighbridge.store.database import Database

__all__ = ["Database"]
