"""Settings of the law tests."""

from hypothesis import settings

# Absolute times are never asserted: a busy machine would fail a good law.
settings.register_profile("schemas", deadline=None)
settings.load_profile("schemas")
