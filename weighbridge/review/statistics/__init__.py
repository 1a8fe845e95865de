"""What labels say: pure functions over numbers, with their sources."""
