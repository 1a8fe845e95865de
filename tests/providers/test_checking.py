"""Checking: what the cheapest request tells of address, key and model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.checking import Checked, Reach, check
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import HttpRequest, HttpResponse

PAGE = b"<!doctype html><title>Welcome</title>"
NOT_FOUND: dict[str, Any] = {"detail": "Not Found"}
NO_MODEL = {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}


async def checked(
    listing: tuple[int, Any], asked: tuple[int, Any] = (404, NOT_FOUND), *, profile: str = "vllm"
) -> Checked:
    """What a server is found to be that answers one way to GET and another way to POST."""

    async def send(request: HttpRequest) -> HttpResponse:
        status, body = listing if request.method == "GET" else asked
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return HttpResponse(status=status, headers={}, body=raw)

    speaker = named(profile)
    adapter = None if speaker.wire == "systemone" else adapter_for(speaker)
    return await check(speaker, "m", adapter, send, facts={})


@pytest.mark.parametrize(
    ("profile", "listing", "is_listed"),
    [
        ("vllm", {"data": [{"id": "m"}]}, True),
        ("vllm", {"data": [{"id": "other"}, {"id": "M"}]}, True),
        ("vllm", {"data": [{"id": "other"}]}, False),
        ("vllm", {"data": [{"id": "m-2"}]}, False),
        ("vllm", {"data": []}, False),
        ("together", [{"id": "m"}], True),
        ("together", [{"id": "other"}], False),
        ("gemini_openai_compat", {"data": [{"id": "models/m"}]}, True),
        ("gemini_native", {"models": [{"name": "models/m"}]}, True),
        ("gemini_native", {"models": [{"name": "models/other"}]}, False),
        ("gemini_native", {"models": [{"name": "models/other"}], "nextPageToken": "x"}, True),
        ("ollama_native", {"models": [{"name": "m:latest", "model": "m:latest"}]}, True),
        ("ollama_native", {"models": [{"name": "m:7b", "model": "m:7b"}]}, False),
        ("ollama_native", {"models": []}, False),
        ("anthropic", {"data": [{"id": "m", "display_name": "M"}], "has_more": False}, True),
        ("anthropic", {"data": [{"id": "other"}], "has_more": False}, False),
        ("anthropic", {"data": [{"id": "other"}], "has_more": True}, True),
        # Deployments have names of their own; one model answers to any name; a key is no list.
        ("azure_openai", {"data": [{"id": "other"}]}, True),
        ("llama_cpp_server", {"data": [{"id": "other"}]}, True),
        ("openrouter", {"data": {"label": "sk-or-…"}}, True),
        ("systemone", {"status": "ok"}, True),
    ],
)
async def test_model_that_is_not_listed_is_a_warning(
    profile: str, listing: Any, is_listed: bool
) -> None:
    """Somebody is there and takes the key; what a list lacks may be served all the same."""
    detail = "" if is_listed else "but does not list the model 'm'"
    assert await checked((200, listing), profile=profile) == Checked(
        reach=Reach.REACHABLE, detail=detail
    )


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        ((404, NOT_FOUND), "see base_url: status 404, nothing at this path"),
        ((404, b"404 page not found"), "see base_url: status 404, nothing at this path"),
        ((404, PAGE), "see base_url: status 404, a web page and no answer of the provider's"),
        ((404, NO_MODEL), "there is no such model: status 404, model_not_found"),
        ((404, {"error": "model 'm' not found"}), "there is no such model: status 404"),
        (
            (404, {"error": {"message": "Invalid URL (POST /v1/models/x)"}}),
            "see base_url: status 404, nothing at this path",
        ),
        (
            (404, {"error": {"message": "No endpoints found for a/m.", "code": 404}}),
            "there is no such model: status 404",
        ),
    ],
)
async def test_wrong_address_is_told_from_a_wrong_model(
    asked: tuple[int, Any], detail: str
) -> None:
    """As far as the server tells: one that knows models names them."""
    found = await checked((404, NOT_FOUND), asked)
    assert found == Checked(reach=Reach.REFUSED, detail=detail)


async def test_web_page_is_no_provider() -> None:
    """The address of a vendor's site, where that of its API belongs."""
    found = await checked((200, PAGE))
    assert found == Checked(
        reach=Reach.REFUSED, detail="what answers there is no API; see base_url"
    )
    assert (await checked((200, b"OK"), profile="systemone")).reach is Reach.REACHABLE


async def test_server_without_a_list_is_asked_for_a_few_words() -> None:
    choice = {"finish_reason": "length", "message": {"role": "assistant", "content": "It is"}}
    found = await checked((404, NOT_FOUND), (200, {"choices": [choice]}))
    assert found == Checked(reach=Reach.REACHABLE)
