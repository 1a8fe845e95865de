"""Guides: what an answer must look like, whatever the model would rather say."""
