"""SentencePiece vocabularies out of GGUF files: read as `sentencepiece` itself reads them."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gguf import TokenType
from gguf_files import FIELDS, tokenizer_fields
from hypothesis import example, given
from hypothesis import strategies as st

from weighbridge.errors import EngineError
from weighbridge.local_engine.models.gguf_tokenizer import tokenizer_json
from weighbridge.local_engine.tokenizer import ByteTokenizer

# Short on purpose, and with runs of one character, whose pieces can be cut in several ways.
CORPUS = [
    "The export page crashes, please refund one of the payments for the Team plan.",
    "I cannot log in: the reset mail never comes, not even after three tries in 2024.",
    "La factura no es correcta, ¿pueden enviar otra? Añadí el número de cliente.",
    'def total(rows): return sum(row["price"] * 2 for row in rows)  # 100.00',
    *("=" * n + " " * n + "a" * n + "\n" for n in range(1, 17)),
]


@cache
def library() -> Any:
    """A model of the kind that Llama 2 has."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 4),
        model_writer=model,
        model_type="bpe",
        vocab_size=600,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        num_threads=1,
        minloglevel=2,
    )
    return SentencePieceProcessor(model_proto=model.getvalue())


def kind(piece: int) -> TokenType:
    found = library()
    if found.is_control(piece):
        return TokenType.CONTROL
    if found.is_unknown(piece):
        return TokenType.UNKNOWN
    return TokenType.BYTE if found.is_byte(piece) else TokenType.NORMAL


@cache
def fields() -> dict[str, Any]:
    """What llama.cpp's converter writes of it."""
    found = library()
    pieces = range(found.get_piece_size())
    return tokenizer_fields([(found.id_to_piece(i), found.get_score(i), kind(i)) for i in pieces])


def built(**more: Any) -> ByteTokenizer:
    changed = {f"tokenizer.ggml.{key}": value for key, value in more.items()}
    return ByteTokenizer.from_json(tokenizer_json({**fields(), **changed}, Path("x.gguf")), {2})


@cache
def tokenizer() -> ByteTokenizer:
    return built()


TEXTS = st.text() | st.lists(
    st.sampled_from([*"aeo= .\n1é✓", "the", " page", "aa", "==", "   ", "2024", "<s>", "<0x0A>"])
).map("".join)


@given(text=TEXTS.filter(lambda text: "▁" not in text and "\0" not in text))
@example(text="aaaaa=====     ")
def test_ids_are_those_of_the_library(text):
    """Merges come in the order of the scores, unknown characters as their bytes."""
    assert tokenizer().encode(text) == library().encode(text)


@pytest.mark.parametrize("text", CORPUS)
def test_ids_of_the_corpus_are_those_of_the_library(text):
    assert tokenizer().encode(text) == library().encode(text)


@given(text=TEXTS | st.text("▁ a"))
def test_bytes_of_an_encoding_are_those_of_the_text(text):
    """A ▁ in a text stays one, though the vocabulary writes spaces so."""
    assert tokenizer().decode(tokenizer().encode(text)) == text.encode()


@given(text=TEXTS)
def test_no_text_becomes_a_control_token(text):
    assert tokenizer().special_ids == {0, 1, 2}
    assert tokenizer().special_ids.isdisjoint(tokenizer().encode(text))


@given(left=TEXTS, right=TEXTS)
def test_pieces_of_a_prompt_are_put_together_without_spaces(left, right):
    """The space that opens a text is a matter of the template."""
    ids = [*tokenizer().encode(left), *tokenizer().encode(right)]
    assert tokenizer().decode(ids) == (left + right).encode()


def test_every_token_spells_what_the_library_decodes():
    """Each id behind a letter, since the library strips what comes first."""
    found = library()
    before = found.piece_to_id("a")
    for token_id, spelled in enumerate(tokenizer().token_bytes):
        if found.is_control(token_id) or found.is_unknown(token_id):
            assert spelled == b""
        elif found.is_byte(token_id):
            assert spelled == bytes([int(found.id_to_piece(token_id)[3:5], 16)])
        else:
            assert found.decode([before, token_id]) == "a" + spelled.decode()


def test_space_belongs_to_the_word_that_it_precedes():
    """Not the mark that the vocabulary writes for it."""
    vocabulary = {library().id_to_piece(i): i for i in range(library().get_piece_size())}
    the = vocabulary["▁the"]
    assert tokenizer().token_bytes[the] == b" the"
    assert the in tokenizer().starting_with(b" t")
    assert tokenizer().starting_with("▁".encode()) == []


def test_spaces_before_texts_are_reported_and_never_made():
    """Files say so unless they say no; a template then puts them back."""
    assert tokenizer().space_prefix == "legacy"
    assert built(add_space_prefix=False).space_prefix == "never"
    assert built(add_space_prefix=False).encode("the") == tokenizer().encode("the")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"precompiled_charsmap": [1]}, "precompiled_charsmap"),
        ({"remove_extra_whitespaces": True}, "remove_extra_whitespaces"),
        ({"scores": [float("nan")] * 600}, "not finite"),
    ],
)
def test_what_would_change_texts_or_their_merges_is_refused(change, named):
    with pytest.raises(EngineError, match=named):
        built(**change)


def test_vocabulary_without_a_token_for_each_byte_is_refused():
    """Some characters would have no spelling."""
    bare = tokenizer_fields([("a", 0.0, TokenType.NORMAL), ("</s>", 0.0, TokenType.CONTROL)])
    with pytest.raises(EngineError, match="every byte"):
        ByteTokenizer.from_json(tokenizer_json({**FIELDS, **bare}, Path("x.gguf")), {1})
