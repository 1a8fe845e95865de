"""Google's generateContent, the native interface of the Gemini API, never as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from weighbridge.providers.envelopes import post
from weighbridge.providers.failures import classify
from weighbridge.providers.gemini_reply import read_success
from weighbridge.providers.gemini_request import request_body
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
class GeminiAdapter:
    """Builds and reads `POST /models/{model}:generateContent`.

    Args:
        profile: what is sent for a wish to think, by model.
        tool: name of the function that takes the answer. A call of any other is no answer.

    Source: Gemini API reference, models.generateContent; googleapis/python-genai, types.py.
    """

    profile: Profile
    tool: str = TOOL_NAME

    def build(self, schema: SchemaPlan, prompt: Prompt, options: RequestOptions) -> HttpRequest:
        """The request for one ticket; see `Adapter.build`.

        Raises:
            ValueError: `options` hold a logit bias, for which the wire has no field.
        """
        body = request_body(schema, prompt, options, self.profile, self.tool)
        # Google's own lists name models with the prefix, its examples without.
        model = quote(options.model.removeprefix("models/"), safe="")
        return post(f"/models/{model}:generateContent", body)

    def parse(self, response: HttpResponse) -> Reply | Failure:
        """The reply, or the first of these that applies; see `Adapter.parse`.

        An error status, an error inside a 200, a prompt that was blocked, a finish reason that
        tells of no finish, a call of another function, no text, a finish reason that is not
        documented as complete. Thoughts are no text. The answer is the text, or the arguments of
        our function if it was called.
        """
        if not 200 <= response.status <= 299:
            return classify(response)
        return read_success(response, self.tool)
