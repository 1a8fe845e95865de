"""Decoding: a model writes under a guide, token by token, and every token is accounted for."""
