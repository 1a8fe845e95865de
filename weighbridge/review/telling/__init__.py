"""What other systems are told, at least once and in order, and proof that it came from here."""
