"""Which adapter speaks which wire format."""

from __future__ import annotations

from weighbridge.providers.anthropic import AnthropicAdapter
from weighbridge.providers.gemini import GeminiAdapter
from weighbridge.providers.ollama import OllamaAdapter
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import Adapter


def adapter_for(profile: Profile) -> Adapter:
    """The adapter for a speaker's wire format.

    Raises:
        ValueError: System One is no wire format for texts; it has a provider of its own.
    """
    match profile.wire:
        case "openai":
            return OpenAIAdapter(profile)
        case "anthropic":
            return AnthropicAdapter(profile)
        case "gemini":
            return GeminiAdapter(profile)
        case "ollama":
            return OllamaAdapter(profile)
        case _:
            raise ValueError(f"no adapter for the wire format {profile.wire!r}")
