"""The whole loop, as docs/tutorial.md tells it, and what of it must hold in every run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from bench import story

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "tickets" / "banking77-draw0"


@pytest.mark.slow
@pytest.mark.models
def test_the_story_keeps_its_promise(capsys):
    """The coin falls anew in each run: what is certified differs, what must hold does not."""
    if not FOLDER.is_dir():
        pytest.skip(f"the labelled tickets of {FOLDER.name} are not here: the story is NOT tested")
    story.main([str(FOLDER), "--json"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])

    tallies = told["tallies"]
    assert sum(tally["num_tickets"] for tally in tallies) == 600
    for tally in tallies:
        assert tally["num_accepted"] + tally["num_reviewed"] == tally["num_tickets"]

    (lesson,) = [fields["category"] for fields in told["learned"]]
    accuracy = {name: score["accuracy"] for name, score in lesson["scores"].items()}
    assert accuracy["learned"] > max(accuracy["names alone"], accuracy["tf-idf"])
    num_audits = told["reweighed"][0]["audits"]
    assert num_audits == told["reweighed"][0]["reweighed"] == lesson["left_out"]["audit"]

    (proof,) = told["certified"]
    assert proof["num_labels"] >= num_audits
    assert (proof["certificate"] is None) == (proof["missing"] is not None)
    if proof["certificate"] is not None:
        after = tallies[-1]
        # Far beyond what a kept promise allows by chance.
        most = stats.binom.ppf(0.9999, after["num_accepted"], told["risk"])
        assert after["num_wrong"] <= most
