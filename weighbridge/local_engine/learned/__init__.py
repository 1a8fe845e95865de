"""What was learned from verdicts, as the local engine applies it; torch only."""
