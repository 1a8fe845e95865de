"""The picture: what came out, what the guide allowed, and how likely the free model found it."""
