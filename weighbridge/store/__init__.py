"""The database: the one home of SQLAlchemy. Everything that lasts is kept through it."""
