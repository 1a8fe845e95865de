"""Quotes and signatures: set apart where they are clear, and every line is in one part."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.schemas.mail import set_apart

WROTE = "On Wed, Dec 20, 2023 at 13:37, Al <al@b.example> wrote:"
OUTLOOK = "From: Al <al@b.example>\nSent: Monday\nTo: Bo\nSubject: Plan"
RULES = ["-----Original Message-----", "_" * 32, "-- ", "--"]
lines = st.sampled_from(
    [WROTE, *OUTLOOK.split("\n"), *RULES, "> old", ">", "", "new", "Kind regards,", "Al", "a:"]
) | st.text(st.characters(exclude_characters="\n"), max_size=8)


def kept(text):
    return Counter(line for line in text.split("\n") if line.strip())


@given(text=st.lists(lines, max_size=20).map("\n".join), is_mail=st.booleans())
def test_every_line_is_in_exactly_one_part(text, is_mail):
    """Nothing is dropped or written twice, and a message is never left without text."""
    parts = set_apart(text, is_mail=is_mail)
    assert kept(text) == kept(parts.body) + kept(parts.quoted) + kept(parts.signature)
    assert bool(parts.body.strip()) == bool(text.strip())


@given(text=st.text(st.characters(exclude_characters=">:\uff1a-_=")))
def test_a_text_without_quotes_is_not_touched(text):
    assert set_apart(text).body == text


@pytest.mark.parametrize(
    "introduction",
    [
        WROTE,
        "On Mon, Jan 1, 2024 at 1:00 PM Support <\nsupport@b.example> wrote:",
        "On Monday Al wrote:",
        "Am Mi., 20. Dez. 2023 um 13:37 Uhr schrieb Al <al@b.example>:",
        "Le mer. 20 déc. 2023 à 13:37, Al <al@b.example> a écrit :",
        "El mié, 20 dic 2023 a las 13:37, Al (<al@b.example>) escribió:",
        "Il giorno mer 20 dic 2023 alle ore 13:37 Al <al@b.example> ha scritto:",
        "Op wo 20 dec 2023 om 13:37 schreef Al <al@b.example>:",
        "Em qua., 20 de dez. de 2023 às 13:37, Al <al@b.example> escreveu:",
        "20 дек. 2023 13:37, Al <al@b.example>:",
        "2023年12月20日(水) 13:37 Al <al@b.example>:",
        "Den ons 20 dec. 2023 kl 13:37 skrev Al <al@b.example>:",
    ],
)
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_a_reply_leaves_the_newest_message(introduction, gap):
    """Above the quote or below it, in many languages, with and without a blank line."""
    quote = f"{introduction}{gap}> old\n>\n> older"
    above = set_apart(f"Still broken.\n\n{quote}")
    assert (above.body, above.quoted) == ("Still broken.", quote)
    below = set_apart(f"{quote}\n\nStill broken.")
    assert (below.body, below.quoted) == ("Still broken.", quote)


@pytest.mark.parametrize(
    "quote",
    [
        OUTLOOK,
        "Von: Al\nGesendet: Mittwoch\nAn: Bo\nBetreff: Plan",
        "De : Al\nEnvoyé : lundi\nÀ : Bo\nObjet : Plan",
        "*From:* Al\n*Sent:* Monday\n*To:* Bo\n*Subject:* Plan",
        f"{'_' * 32}\n{OUTLOOK}",
        f"-----Original Message-----\n{OUTLOOK}",
        f"-----Ursprüngliche Nachricht-----\n{OUTLOOK}",
        "-----Original Message-----\nold",
        WROTE,
    ],
)
def test_what_follows_a_header_is_quoted_to_the_end(quote):
    """As Outlook and web mail write it, without a mark before each line."""
    parts = set_apart(f"Still broken.\n\n{quote}\n\nold text\n\nmore")
    assert (parts.body, parts.quoted) == ("Still broken.", f"{quote}\n\nold text\n\nmore")


@pytest.mark.parametrize(
    "text",
    [
        "From: Berlin\nTo: Paris\nDate: 3 May",
        "Rebook me:\nFrom: Berlin\nTo: Paris\nDate: 3 May",
        "On Monday Anna wrote:\nWe need a refund",
        "On 3 May at 10:30 your agent wrote:\nsend us the invoice",
        "The log says at 10:30 for al@b.example:\n> error 5\nPlease fix it",
        "It prints:\n> npm run build\n> failed",
        "> only\n> quoted",
        f"{WROTE}\n> only a quote",
        OUTLOOK,
        f"Some text\n{WROTE}\n> one?\nyes\n> two?\nno",
        f"See below\n\n---------- Forwarded message ---------\n{OUTLOOK}\n\nThe invoice is wrong",
        f"See below\n\nBegin forwarded message:\n\n{OUTLOOK}\n\nThe invoice is wrong",
        "name: x\nstate: y\nerror: z",
        "----------\nsteps\n----------",
        "one\n--\ntwo",
        "Kind regards,\nAnna",
    ],
)
def test_what_only_resembles_a_quote_stays(text):
    """Journeys, logs, answers between the lines, what was forwarded, mails of nothing else."""
    parts = set_apart(text)
    assert (parts.body, parts.quoted, parts.signature) == (text, "", "")


def test_what_the_subject_calls_forwarded_stays():
    text = f"Please look\n\n{OUTLOOK}\n\nThe invoice is wrong"
    assert set_apart(text, subject="FW: Plan").body == text
    assert set_apart(text, subject="WG: Plan").body == text
    assert set_apart(text, subject="RE: Plan").body == "Please look"


@pytest.mark.parametrize(
    "signature",
    [
        "-- \nAnna\nAcme Ltd",
        "Kind regards,\nAnna Pike\nAcme Ltd",
        "Mit freundlichen Grüßen\nAnna",
        "Cordialement",
        "Thanks,\nAnna",
        "Sent from my iPhone",
        "--\nAnna",
    ],
)
def test_a_mail_is_signed_at_its_end(signature):
    parts = set_apart(f"It is broken.\n\n{signature}", is_mail=True)
    assert (parts.body, parts.signature) == ("It is broken.", signature)
    quoted = set_apart(f"It is broken.\n\n{signature}\n\n{WROTE}\n> old")
    assert (quoted.body, quoted.signature) == ("It is broken.", signature)


@pytest.mark.parametrize(
    "end",
    [
        "Thanks, but this does not work",
        "Kind regards,\nAnna\nPS I still cannot log in",
        "Kind regards,\nAnna\nI forgot to say that it fails on every page too",
        "Thanks,\nwhen will it work?",
        "- one\n- two",
        "Sent from my phone it fails, see above",
        "--\n" + "words\n" * 30,
    ],
)
def test_what_follows_a_closing_and_says_something_stays(end):
    text = f"It is broken.\n\n{end}"
    parts = set_apart(text, is_mail=not end.startswith("Sent"))
    assert (parts.body, parts.signature) == (text, "")


def test_without_a_quote_only_the_delimiter_begins_a_signature():
    """A plain text is not known to be a mail."""
    assert set_apart("Broken.\n\n-- \nAnna").signature == "-- \nAnna"
    assert set_apart("Broken.\n\nKind regards,\nAnna").signature == ""
    assert set_apart("-- \nAnna").signature == ""


@pytest.mark.parametrize(
    "piece",
    [
        f"{WROTE}\n",
        "On " * 100 + "1:11 a@b:\n",
        f"{OUTLOOK} x\n",
        "a:\n",
        "> x\ny:\n",
        "-",
        "-----\n",
        "-- \n",
        "Kind regards\n",
        "From: " + " " * 90,
        "\n",
        "1:11 <a@" + "b" * 90,
    ],
)
def test_time_grows_as_the_text_does(piece):
    """Four times the text takes nowhere near sixteen times as long."""
    used = []
    for length in (100_000, 400_000):
        text = "x\n" + piece * (length // len(piece)) + "!"
        begun = time.process_time()
        set_apart(text, is_mail=True)
        used.append(time.process_time() - begun)
    assert used[1] < 11 * used[0] + 0.2
