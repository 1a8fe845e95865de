"""`weighbridge learn`: from verdicts in the queue to what the local engine knows."""

from __future__ import annotations

from contextlib import closing

import pytest

from weighbridge.config import open_queue
from weighbridge.decision import Decision, Question, Reason, ReviewEntry
from weighbridge.settings import load_settings

CONFIG = """
[[provider]]
name = "offline"
kind = "local"

[review]
database = "sqlite:///{folder}/w.db"

[task]
priorities = []
categories = ["zib", "zab"]
"""
SAID = {
    "zib": [
        "I want my money back",
        "Please refund the last payment",
        "You charged my card twice",
        "The invoice shows the wrong amount",
        "Why was I billed again this month",
        "Return what I paid, please",
    ],
    "zab": [
        "The app crashes when I open it",
        "An error message appears on every page",
        "The export button does nothing",
        "The site freezes after I log in",
        "Uploading a file fails with code 500",
        "The search shows a blank screen",
    ],
}
CANARY = "canary-5512"


@pytest.fixture
def learn(cli, home):
    """Runs `weighbridge learn` with two labels whose names mean nothing."""
    (home / "weighbridge.toml").write_text(CONFIG.format(folder=home))
    return lambda *arguments: cli("learn", *arguments)


def settle(said=SAID, options=("zib", "zab")) -> None:
    """Put texts into the queue and judge them."""
    with closing(open_queue(load_settings(None))) as queue:
        for label, texts in said.items():
            for text in texts:
                queue.enqueue(
                    ReviewEntry(
                        dedupe_key=text,
                        decision=Decision(
                            ticket_id=text,
                            task="triage",
                            status="review",
                            value=None,
                            reasons=(Reason.LOW_PROBABILITY,),
                        ),
                        ticket={"id": text, "subject": "", "body": text, "metadata": {}},
                        questions=(Question(field="category", options=options),),
                    )
                )
                item = queue.claim("ann")
                assert item is not None
                assert item.lease_token is not None
                values = {"category": label}
                queue.answer(item.id, reviewer="ann", token=item.lease_token, values=values)


def test_empty_queue_teaches_nothing(learn):
    """And the command says how much is missing, without loading a model."""
    ran = learn("--json")
    assert ran.code == 1
    [found] = ran.lines
    assert found["category"]["missing"]["needed"] == 10
    assert found["category"]["version"] is None
    assert "10 more" in learn().out


def test_one_label_alone_teaches_nothing(learn):
    """All verdicts the same say nothing about what else there is."""
    settle({"zib": SAID["zib"]})
    ran = learn("--json")
    assert ran.code == 1
    assert ran.lines[0]["category"]["missing"]["reason"] == "one_label"


def test_labels_that_are_gone_are_named(learn):
    """Whoever renamed them can say so; the texts are not shown."""
    settle({"old": [f"{CANARY} {text}" for text in SAID["zib"]]}, options=("old", "zab"))
    ran = learn()
    assert ran.code == 1
    assert "--rename OLD=NEW: old (6)" in ran.out
    assert CANARY not in ran.out + ran.err
    again = learn("--rename", "old=zib", "--json")
    assert again.lines[0]["category"]["num_by_label"] == {"zib": 6, "zab": 0}
    assert again.lines[0]["category"]["missing"]["reason"] == "one_label"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--field", "categry"], 2, "the nearest is 'category'"),
        (["--rename", "old"], 2, "is not OLD=NEW"),
        (["--rename", "=zib"], 2, "is not OLD=NEW"),
        (["--rename", "old=zibb"], 2, "the nearest is 'zib'"),
        (["--rename", "a=zib", "--rename", "a=zab"], 2, "cannot be two"),
        (["--versions", "--rollback", "1"], 2, "no other option"),
        (["--rollback", "7"], 1, "no version 7"),
        (["--rollback", "-1"], 2, "Usage:"),
    ],
)
def test_wrong_arguments_are_refused_with_what_would_be_right(learn, arguments, code, said):
    """Before anything is read."""
    ran = learn(*arguments)
    assert ran.code == code
    assert said in ran.err


def test_nothing_learned_yet_is_said(learn):
    assert "nothing was learned yet" in learn("--versions").out
    assert learn("--versions", "--json").lines == [[]]


@pytest.mark.models
def test_verdicts_teach_names_that_mean_nothing(learn, cli, monkeypatch):
    """Measured first, then kept, used at once, and taken back on demand."""
    settle()
    text = b"Please give me a refund for the double charge"

    def answer() -> tuple[str, float, str]:
        (decision,) = cli("triage", "--json", stdin=text).lines
        field = decision["fields"]["category"]
        return field["value"], field["options"]["zib"], decision["model"]

    _, before, name = answer()
    (measured,) = learn("--dry-run", "--json").lines
    assert measured["category"]["version"] is None
    scores = measured["category"]["scores"]
    assert scores["learned"]["accuracy"] > scores["names alone"]["accuracy"]
    assert learn("--versions", "--json").lines == [[]]

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("weighbridge.local_engine.engine.Engine.weigh", stopped)
        ran = learn()
        assert (ran.code, "Stopped." in ran.err) == (130, True)
    assert learn("--versions", "--json").lines == [[]]

    ran = learn()
    assert (ran.code, "version 1 is in use now" in ran.out) == (0, True)
    value, after, taught = answer()
    assert (value, taught) == ("zib", f"{name}+learned.1")
    assert after > before + 0.1
    (versions,) = learn("--versions", "--json").lines
    assert [(v["version"], v["is_used"], v["num_examples"]) for v in versions] == [(1, True, 12)]

    assert learn("--rollback", "0").code == 0
    assert answer()[1] == pytest.approx(before, abs=1e-6)
    assert learn("--rollback", "1").code == 0
    assert answer()[1] == pytest.approx(after, abs=1e-6)
