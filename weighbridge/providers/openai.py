"""OpenAI's chat completions, spoken by OpenAI, Groq, OpenRouter, vLLM, llama-server and others."""

from __future__ import annotations

from dataclasses import dataclass

from weighbridge.providers.envelopes import post
from weighbridge.providers.failures import classify
from weighbridge.providers.openai_reply import read_success
from weighbridge.providers.openai_request import request_body
from weighbridge.providers.profiles import Profile
from weighbridge.providers.prompting import TOOL_NAME
from weighbridge.providers.protocol import (
    Failure,
    HttpRequest,
    HttpResponse,
    Reply,
    RequestOptions,
)
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Prompt


@dataclass(frozen=True, slots=True)
class OpenAIAdapter:
    """Builds and reads `POST /chat/completions`, never as a stream.

    Azure is spoken to on its v1 route alone: the classic one carries a version in the URL's query.

    Args:
        profile: whose manners to keep; what differs between speakers is data.
        tool: name of the tool that takes the answer. A call of any other is no answer.

    Source: OpenAI API reference, chat completions; differences between providers in their docs.
    """

    profile: Profile
    tool: str = TOOL_NAME

    def build(self, schema: SchemaPlan, prompt: Prompt, options: RequestOptions) -> HttpRequest:
        """The request for one ticket; see `Adapter.build`.

        Raises:
            ValueError: a logit bias names a text, and the provider reads token ids alone.
        """
        body = request_body(schema, prompt, options, self.profile, self.tool)
        return post("/chat/completions", body)

    def parse(self, response: HttpResponse) -> Reply | Failure:
        """The reply, or the first of these that applies; see `Adapter.parse`.

        An error status, an error inside a 200, a finish reason that tells of no finish, a refusal,
        a call of another tool, no text, a finish reason that nobody documents as complete. Only
        then is the text looked at, and not here. The answer is the text, or the arguments of our
        tool if it was called.
        """
        if not 200 <= response.status <= 299:
            return classify(response)
        return read_success(response, self.tool)
