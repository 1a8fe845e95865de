"""Every status that a vendor, a gateway or a proxy answers with: A says it always, B is well.

What passes is asked again, three times at most, and soon where A says when; what does not pass is
asked once. What is bad for everybody ends the chain: then a person is asked, and B is not.
"""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from scene import ANSWER, Met, Row, Scene, failures
from servers import answers, says, status

PAGE = b"<html><head><title>Bad gateway</title></head><body>nginx</body></html>"


PASSING = (408, 409, 424, 425, 498, 499, 500, 502, 503, 504, 520, 529)
LASTING = {
    (400, None): "unknown",
    (401, None): "credential",
    (402, "Payment required"): "quota",
    (403, "You may not do this"): "credential",
    (404, None): "model_gone",
    (405, None): "unknown",
    (410, None): "model_gone",
    (413, None): "too_long",
    (418, None): "unknown",
    (422, None): "unknown",
    (429, "Limit of requests per day reached"): "quota",
    (451, None): "unknown",
}
ERRORS_IN_200 = {
    b'{"error": {"code": 502, "message": "Provider returned error"}}': ("transient", 3),
    b'{"error": {"code": "insufficient_quota", "message": "x"}}': ("quota", 1),
    b'{"object": "error", "message": "x", "code": 404}': ("model_gone", 1),
    b'{"choices": [{"error": {"code": 401, "message": "x"}}]}': ("credential", 1),
    b'{"choices": null}': ("invalid", 2),
    b"[]": ("invalid", 2),
    b"null": ("invalid", 2),
}

ROWS = [
    *(Row(f"{n}_soon", status(n, retry_after="0.02"), "transient", 3) for n in PASSING),
    *(Row(f"{n}_for_long", status(n), "transient", 3) for n in (408, 500, 503, 529)),
    *(Row(f"{n}_told_not_to", status(n, x_should_retry="false"), "transient") for n in (500, 529)),
    *(Row(f"{n}_lasting", status(n, told), failure) for (n, told), failure in LASTING.items()),
    *(Row(f"{n}_empty", says(n), "invalid", 2) for n in (200, 201, 204)),
    *(
        Row(f"page_under_{n}", says(n, PAGE, content_type="text/html"), failure, times)
        for n, failure, times in [
            (200, "invalid", 2),
            (403, "unknown", 1),
            (404, "model_gone", 1),
            (502, "transient", 3),
        ]
    ),
    *(
        Row(f"error_in_200_{number}", says(200, body), failure, times)
        for number, (body, (failure, times)) in enumerate(ERRORS_IN_200.items())
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_next_one_answers(met: dict[str, Future[Met]], row: Row) -> None:
    row.check(met[row.name].result())


@pytest.mark.parametrize("code", PASSING)
def test_pause_is_the_one_that_was_asked_for(met: dict[str, Future[Met]], code: int) -> None:
    trail = met[f"{code}_soon"].result().decision.trail
    assert [attempt.waited_s for attempt in trail] == [0.0, 0.02, 0.02, 0.0]


@pytest.mark.parametrize("code", [408, 500, 503, 529])
def test_pause_that_nobody_asked_for_grows(met: dict[str, Future[Met]], code: int) -> None:
    trail = met[f"{code}_for_long"].result().decision.trail
    waits = [attempt.waited_s for attempt in trail if attempt.provider == "a"]
    assert 0.0 == waits[0] < waits[1] < waits[2] <= 1.0


@pytest.mark.parametrize("code", [200, 403, 404, 502])
def test_page_of_a_proxy_is_not_repeated(met: dict[str, Future[Met]], code: int) -> None:
    """It may hold anything, such as the ticket that it did not let through."""
    assert "nginx" not in repr(met[f"page_under_{code}"].result().decision)


@pytest.mark.parametrize("code", [400, 422])
def test_fault_of_the_request_itself_ends_the_chain(scene: Scene, code: int) -> None:
    """It would be the same everywhere; nobody is blamed for it, and a person is asked."""
    a = scene.add("a", status(code, "invalid_value: messages must not be empty"))
    b = scene.add("b", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, ticket) for ticket in ("First", "Second")]
    assert [(d.status, d.value, d.reasons) for d in decisions] == [
        ("review", None, ("no_answer",))
    ] * 2
    assert [failures(d) for d in decisions] == [["caller_fault"]] * 2
    assert (a.hits, b.hits) == (2, 0)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(scene: Scene, code: int) -> None:
    """Neither the key nor the ticket goes to an address that nobody configured."""
    elsewhere = scene.market.open(answers())
    location = f"http://127.0.0.1:{elsewhere.port}/v1/chat/completions"
    a, b = scene.add("a", says(code, location=location)), scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == ("b", ANSWER)
    assert failures(decision) == ["unknown"]
    assert (a.hits, b.hits, elsewhere.num_connections) == (1, 1, 0)
