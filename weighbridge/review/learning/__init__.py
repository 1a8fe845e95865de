"""From verdicts to a better local engine, measured beside what is cheaper, and kept in versions."""
