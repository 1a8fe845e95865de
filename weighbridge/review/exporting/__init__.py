"""The queue as files, for machines and for people."""
