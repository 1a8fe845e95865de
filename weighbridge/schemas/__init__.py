"""Tickets, tasks, schema plans, strict JSON and finite languages: what is asked and answered."""
