"""Providers: who can be asked, how their wire formats read, and what their numbers mean."""
