"""Which adapter speaks which wire format."""

from __future__ import annotations

from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import Adapter


def adapter_for(profile: Profile) -> Adapter:
    """The adapter for a speaker's wire format."""
    return OpenAIAdapter(profile)
