"""The review queue: what a machine may not decide alone waits here for a person."""
