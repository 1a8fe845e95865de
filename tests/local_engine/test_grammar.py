"""Grammar guides by example: what each notation accepts and rejects, and the engine's traps."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from weighbridge.errors import EngineError, SchemaRefused, TaskInvalid
from weighbridge.local_engine import guides
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.guides.grammar_guide import GrammarGuide
from weighbridge.local_engine.guides.grammar_tables import tables_of
from weighbridge.local_engine.guides.protocol import Guide, Spec, State
from weighbridge.local_engine.tokenizer import ByteTokenizer
from weighbridge.local_engine.vocabulary import TableVocabulary, Vocabulary

# One token for each printable character and the two bytes of é, then longer ones.
_LONGER = [b'": ', b'", "', b'"a": ', b"e99", b"999", b"\n", b"\x7f"]
TOKENS = [bytes([b]) for b in [*range(0x20, 0x7F), *"é".encode()]] + _LONGER
VOCABULARY = TableVocabulary([*TOKENS, b"", b"", b"", b""], {len(TOKENS), len(TOKENS) + 2})
CONTROL = len(TOKENS) + 1


def after(guide: Guide, text: str, vocabulary: Vocabulary = VOCABULARY) -> State | None:
    """The state after a text; None if it may not be written."""
    state = guide.init()
    try:
        for token in vocabulary.encode(text):
            state = guide.advance(state, token)
    except ValueError:
        return None
    return state


def accepts(spec: Spec, text: str) -> bool:
    guide = spec.bind(VOCABULARY)
    state = after(guide, text)
    return state is not None and all(guide.bias(state)[end] == 0 for end in VOCABULARY.eos_ids)


def allowed(guide: Guide, state: State, vocabulary: Vocabulary = VOCABULARY) -> set[bytes]:
    """The bytes of the tokens that may come next, without ends."""
    row = guide.bias(state)
    assert row.shape == (vocabulary.vocab_size,)
    ids = torch.nonzero(row == 0).flatten().tolist()
    return {vocabulary.token_bytes[i] for i in ids if i not in vocabulary.eos_ids}


OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    "required": ["a"],
}
CLOSED = OBJECT | {"additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        (CLOSED, '{"a": "x", "b": 1}', '{"a":"x","b":1}'),  # no other white space
        (CLOSED, '{"a": "x"}', '{"a": "x" }'),
        (CLOSED, '{"a": "x"}', '{"b": 1}'),
        (CLOSED, '{"a": "x", "b": 1}', '{"b": 1, "a": "x"}'),  # the schema's order is the order
        (CLOSED, '{"a": "x"}', '{"a": "x", "c": 1}'),
        (OBJECT, '{"a": "x", "c": 1}', '{"a": "x", "a": "y"}'),
        (OBJECT, '{"a": "x", "c": 1, "d": 2}', '{"a": "x", "c": 1, "c": 2}'),  # a name repeats
        (OBJECT, '{"a": "c", "c": "c"}', '{"a": "x", "\\u0063": 1, "c": 2}'),  # spelled otherwise
        (
            {"properties": {"a": {"const": 1}}, "additionalProperties": {"const": 2}},
            '{"a": 1, "b": 2}',
            '{"\\u0061": 2}',  # read as "a", which must be 1
        ),
        (
            {"properties": {"ab": {"type": "string"}}, "patternProperties": {"^a": {"const": "x"}}},
            '{"ab": "x"}',
            '{"ab": "y"}',  # a pattern holds for listed names too
        ),
        (
            {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False},
            '{"ab": 1, "ac": 2}',
            '{"ab": 1, "ab": 2}',
        ),
        ({"type": "object", "minProperties": 2}, '{"c": 1, "d": 1}', '{"c": 1, "c": 1}'),
        ({"type": "array"}, '[{"a": 1}, {"a": 1}]', '[{"a": 1, "a": 1}]'),
        ({"type": "number"}, "1e308", "1e309"),  # infinite to most readers
        ({"type": "number"}, "-0.5e-999", "-1E+999"),
        ({"type": "integer"}, "9" * 308, "9" * 310),
        ({}, "[1e99]", "[1e999]"),
        ({"type": "integer"}, "-12", "01"),
        ({"type": "integer", "minimum": 3, "maximum": 12}, "12", "13"),
        ({"multipleOf": 0.01}, "0.25", "0.255"),
        ({"type": "string"}, '"é"', '"\\u00e9"'),  # one spelling each
        ({"type": "string"}, '"\\n"', '"\n"'),
        ({"type": "string"}, '"\\n"', '"\\ud800"'),  # half a surrogate pair
        ({"type": "string"}, '"a"', '"\x7f"'),
        ({"type": "string", "pattern": "^a+$"}, '"aa"', '"ab"'),
        ({"type": "string", "maxLength": 1}, '"é"', '"éa"'),  # characters, not bytes
        ({"enum": ["bug", 1, None]}, '"bug"', '"bugs"'),
        ({"const": {"b": [], "a": 1.5}}, '{"b": [], "a": 1.5}', '{"b": [1], "a": 1.5}'),
        (True, '{"a": [null]}', "{'a'}"),
        ({"properties": {"a": False}}, '{"b": 1}', '{"a": 1}'),
        ({"anyOf": [{"minLength": 2}, {"type": "null"}]}, '"ab"', '"a"'),
    ],
)
def test_json_schema_accepts_and_rejects(schema: Any, right: str, wrong: str) -> None:
    """Each pair is one rule; the wrong text differs from a right one in that rule alone."""
    spec = guides.json_schema(schema)
    assert accepts(spec, right)
    assert not accepts(spec, wrong)


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"not": {"enum": ["a", None]}}, ["ab", "", 1, {}], ["a", None]),
        ({"not": {"type": ["string", "object"]}}, [1, None, []], ["a", {}]),
        ({"not": {"required": ["a"]}}, [{}, {"b": 1}], [{"a": 1}, "a"]),
        ({"not": {"properties": {"a": {"const": 1}}}}, [{"a": 2}], [{"a": 1}, {}, 1]),
        ({"not": {"anyOf": [{"minimum": 3}, {"type": "string"}]}}, [2, -1], [3, "a", None]),
        ({"not": {"not": {"pattern": "^a"}}}, ["a", 1], ["b"]),
        (
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            [{"a": 1}, {"b": 1}],
            [{"a": 1, "b": 1}, {}],
        ),
        ({"oneOf": [{"maximum": 2}, {"maximum": 5}]}, [3, 5], [2, 6]),
        (
            {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}, "else": False},
            [{"a": 1, "b": 1}, {"b": 2}],
            [{"a": 1}, {"a": 2, "b": 1}],
        ),
        ({"dependentRequired": {"a": ["b"]}}, [{"b": 1, "a": 1}, {"b": 1}], [{"a": 1}]),
        ({"dependencies": {"a": {"required": ["b"]}}}, [{"b": 1, "a": 1}], [{"a": 1}]),
        ({"propertyNames": {"pattern": "^a"}}, [{"ab": 1}, {}], [{"b": 1}]),
        ({"propertyNames": {"enum": ["a", "b"]}}, [{"b": 1}, {"a": 1, "b": 2}], [{"c": 1}]),
        (
            {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False},
            [{"a": 1}, {}],
            [{"b": 1}],
        ),
        (
            {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "maxItems": 2},
            [[], [2, 1]],
            [[1, 1]],
        ),
        ({"contains": True}, [[1], [1, 2]], [[]]),
        ({"items": [{"type": "null"}], "additionalItems": False}, [[None], []], [[None, 1]]),
    ],
)
def test_what_the_engine_does_not_know_is_said_in_other_words(
    schema: Any, right: list[Any], wrong: list[Any]
) -> None:
    """Negations, exclusive alternatives, conditions and dependencies that have an equal."""
    spec = guides.json_schema(schema)
    for value in right:
        assert accepts(spec, json.dumps(value)), value
    for value in wrong:
        assert not accepts(spec, json.dumps(value)), value


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date", "2000-02-29", "1900-02-29"),
        ("date", "1999-12-31", "1999-11-31"),
        ("time", "23:59:59Z", "24:00:00Z"),
        ("time", "10:00:00.5+05:30", "22:59:60Z"),  # no leap second where none can be
        ("date-time", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z"),
        ("duration", "P1Y2M", "P1Y2D"),
        ("email", "a.b@example.com", "a..b@example.com"),
        ("email", f"{'a' * 64}@b.c", f"{'a' * 65}@b.c"),
        ("email", "a@[IPv6:::1]", "a@[1.2.3.256]"),
        ("hostname", "a--b.c", "xn--x"),
        ("hostname", "a" * 63, "a" * 64),
        ("hostname", f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}", f"{'a.' * 127}ab"),
        ("ipv4", "127.0.0.1", "127.0.0.01"),
        ("ipv6", "::ffff:1.2.3.4", "1:2:3:4:5:6:7"),
        ("ipv6", "1::8", "1::2::3"),
        ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08aa98-11ea-b4aa-73b441d16380"),
        ("uri", "http://[::1]:80/a?b#c", "http://a b"),
        ("uri", "urn:a:b", "//host/path"),
        ("uri-reference", "../a?b", "a\\b"),
        ("iri", "http://é/", "é"),
        ("iri-reference", "é#é", "é[a"),
        ("json-pointer", "/a~1b", "/a~2"),
        ("relative-json-pointer", "1/a", "01/a"),
        ("uri-template", "/{a,b}{?c*}", "/{a"),
    ],
)
def test_formats_are_enforced_to_the_letter(name: str, right: str, wrong: str) -> None:
    """No value of a format is left to a check afterwards."""
    spec = guides.json_schema({"type": "string", "format": name})
    assert accepts(spec, json.dumps(right, ensure_ascii=False))
    assert not accepts(spec, json.dumps(wrong, ensure_ascii=False))


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"\d+", "12", "1a"),
        (r"^ab$", "ab", "abc"),
        (r"a*", "aaa", "b"),
        (r"(?i)ab", "aB", "ac"),
        (r"[^\s]{2}", "ab", "a "),
        (r"a.b", "a-b", "a\nb"),
        (r"(?s)a.b", "a\nb", "ab"),
        (r"[a&&b]+", "a&b", "c"),  # no intersection: `&` is a character
        (r"\/[\w-]+", "/a-b", "/a b"),
        (r"a{2,3}?", "aa", "a"),
        ("é", "é", "e"),
    ],
)
def test_regex_accepts_and_rejects(pattern: str, right: str, wrong: str) -> None:
    """Whole texts, in the common ground of Python and ECMAScript."""
    assert accepts(guides.regex(pattern), right)
    assert not accepts(guides.regex(pattern), wrong)


def test_text_that_may_end_may_also_go_on() -> None:
    """`a*` is not `a?`: end of text is one way among others."""
    guide = guides.regex("a*").bind(VOCABULARY)
    state = after(guide, "a")
    assert allowed(guide, state) == {b"a"}
    assert all(guide.bias(state)[end] == 0 for end in VOCABULARY.eos_ids)
    assert not guide.finished(state)


@pytest.mark.parametrize(
    "pattern",
    [
        r"[^\s\S]",  # no character is in it
        "a{0}",  # only the empty text
        "",
        "a(",
        "a(?!b)",
        r"(a)\1",
        r"\bword\b",
        "a++",
        "[b-a]",
        r"\p{Unheard}",
        "ж",  # not in the vocabulary
    ],
)
def test_useless_regex_is_refused_when_bound(pattern: str) -> None:
    """The engine would allow only end of text, which would pass for an answer."""
    with pytest.raises(TaskInvalid) as caught:
        guides.regex(pattern).bind(VOCABULARY)
    assert caught.value.pointer == "/pattern"
    assert not isinstance(caught.value, SchemaRefused)


GRAMMAR = """
start: "(" item ("," item)* ")"  // a list
item: NUMBER | start
NUMBER: /[0-9]{1,3}/
"""


def test_lark_accepts_and_rejects() -> None:
    """Nested rules and terminals."""
    assert accepts(guides.lark(GRAMMAR), "(1,(22,3))")
    assert not accepts(guides.lark(GRAMMAR), "(1,(22,3)")
    assert not accepts(guides.lark(GRAMMAR), "(1234)")


def test_schema_in_lark_is_lowered_too() -> None:
    """What `json_schema` enforces is enforced after `%json`, and refused there."""
    spec = guides.lark('start: "a " %json {"format": "date", "type": "string"}')
    assert accepts(spec, 'a "2024-02-29"')
    assert not accepts(spec, 'a "2023-02-29"')
    with pytest.raises(SchemaRefused):
        guides.lark('start: %json {"type": "string", "format": "url"}').bind(VOCABULARY)


@pytest.mark.parametrize(
    "text",
    [
        'start: "a" other',
        'other: "a"',
        "start: ",
        'start: "a',
        "start: start",
        'start: start "a"',
        'start: <|im_end|> "a"',
        "start: <[2]>",
        "start: %json {",
        "",
    ],
)
def test_useless_lark_is_refused_when_bound(text: str) -> None:
    """Undefined rules, rules without an end, control tokens, no rule at all."""
    with pytest.raises(TaskInvalid) as caught:
        guides.lark(text).bind(VOCABULARY)
    assert caught.value.pointer == "/text"


def test_text_that_looks_like_a_control_token_is_text_in_lark() -> None:
    """Inside of quotes and patterns, `<a>` is three characters."""
    assert accepts(guides.lark('start: "<a>" /<[b]>/'), "<a><b>")


def test_gbnf_accepts_and_rejects() -> None:
    """The notation of llama.cpp."""
    spec = guides.gbnf('root ::= item ("," item)*  # list\nitem ::= [a-c]+ | "x"{2}')
    assert accepts(spec, "ab,xx")
    assert not accepts(spec, "ab,x")
    assert not accepts(spec, "ab,")


@pytest.mark.parametrize(
    "text", ['root ::= "a" other', 'start ::= "a"', 'root ::= "a', "root ::= [a-", "", "root = 1"]
)
def test_useless_gbnf_is_refused_when_bound(text: str) -> None:
    """Undefined rules, no root, unfinished texts."""
    with pytest.raises(TaskInvalid) as caught:
        guides.gbnf(text).bind(VOCABULARY)
    assert caught.value.pointer == "/text"


def test_value_that_never_ends_is_no_value() -> None:
    """A list that must hold a list that must hold a list is empty; elsewhere it is left out."""
    endless = {"type": "array", "items": {"$ref": "#/$defs/endless"}, "minItems": 1}
    with pytest.raises(SchemaRefused):
        guides.json_schema({"$ref": "#/$defs/endless", "$defs": {"endless": endless}}).bind(
            VOCABULARY
        )
    optional = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/endless"}, "b": {"const": 1}},
        "additionalProperties": False,
        "$defs": {"endless": endless},
    }
    guide = guides.json_schema(optional).bind(VOCABULARY)
    assert allowed(guide, after(guide, '{"')) == {b"b"}


def test_schema_nested_too_deeply_is_refused() -> None:
    """Neither a crash nor a RecursionError."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(TaskInvalid):
        guides.json_schema(schema).bind(VOCABULARY)


@pytest.mark.parametrize("schema", [{"const": float("nan")}, {"const": "\ud800"}, {"const": {1}}])
def test_schema_that_is_no_json_is_refused(schema: Any) -> None:
    """Before anything is compiled, and without quoting it."""
    with pytest.raises(TaskInvalid, match="no JSON"):
        guides.json_schema(schema).bind(VOCABULARY)


@pytest.mark.parametrize(
    "spec",
    [guides.regex("a\ud800"), guides.lark('start: "\ud800"'), guides.gbnf('root ::= "\ud800"')],
)
def test_grammar_with_half_a_surrogate_pair_is_refused_without_quoting_it(spec: Spec) -> None:
    with pytest.raises(TaskInvalid, match="half a surrogate pair, which is no text"):
        spec.bind(VOCABULARY)


@pytest.mark.parametrize("schema", ['{"items": ' * 5000 + "true" + "}" * 5000, "[" * 90_000])
def test_schema_in_lark_nested_too_deeply_is_refused(schema: str) -> None:
    """Neither a crash nor a RecursionError, there as elsewhere."""
    with pytest.raises(TaskInvalid, match="deeply"):
        guides.lark(f"start: %json {schema}").bind(VOCABULARY)


def test_token_that_writes_several_names_repeats_none() -> None:
    """Not even where the object had no name before it."""
    tokens = [b'{"a', b'": 1, "a"', b'": 1, "b"', b'{"a": 1, "a": 1}', b'{"a": 1, "b": 1}', b'"']
    vocabulary = TableVocabulary([*tokens, *TOKENS, b""], {len(tokens) + len(TOKENS)})
    guide = guides.json_schema({"type": "object"}).bind(vocabulary)
    first = allowed(guide, guide.init(), vocabulary)
    assert first & set(tokens) == {tokens[0], tokens[4]}
    second = allowed(guide, guide.advance(guide.init(), 0), vocabulary)
    assert second & set(tokens) == {tokens[2], tokens[5]}


def test_token_of_many_digits_makes_no_number_infinite() -> None:
    """Nor do several, nor an exponent behind them."""
    tokens = [b"9" * 310, b"9" * 160, b"9" * 12 + b"e99"]
    vocabulary = TableVocabulary([*tokens, b"9" * 100, *TOKENS, b""], {4 + len(TOKENS)})
    guide = guides.json_schema({"type": "number"}).bind(vocabulary)
    assert allowed(guide, guide.init(), vocabulary) & set(tokens) == set(tokens[1:])
    for before in ([1], [3, 3]):
        state = guide.init()
        for token in before:
            state = guide.advance(state, token)
        assert not allowed(guide, state, vocabulary) & {tokens[0], tokens[len(before)]}


def test_engine_that_fails_while_it_looks_ahead_raises_there() -> None:
    """It breaks on this lexeme, and every later state of the grammar would be broken as well."""
    guide = guides.lark("start: gen /b/\ngen[lazy]: /a*/").bind(VOCABULARY)
    with pytest.raises(EngineError, match="gave up"):
        guide.forced(guide.init())


def test_engine_out_of_budget_raises_and_never_ends_the_text() -> None:
    """The engine would only allow end of text; states from before stay as they were."""
    from llguidance import LLMatcher, LLParserLimits

    matcher = LLMatcher(
        tables_of(VOCABULARY).tokenizer,
        "start: /[a-d]*(b|c)[a-d]{6}/",
        log_level=0,
        limits=LLParserLimits(max_lexer_states=20),
    )
    guide = GrammarGuide(matcher, VOCABULARY, "test")
    first = allowed(guide, guide.init())
    with pytest.raises(EngineError, match="gave up"):
        after(guide, "abcabcabc")
    assert allowed(guide, guide.init()) == first


def test_every_end_of_text_token_ends_an_answer_once() -> None:
    """All of several are allowed, and a second one changes nothing."""
    guide = guides.json_schema({"const": "a"}).bind(VOCABULARY)
    whole = after(guide, '"a"')
    assert guide.finished(whole)
    for end in VOCABULARY.eos_ids:
        assert guide.advance(whole, end) == whole
    open_end = after(guides.regex("a+").bind(VOCABULARY), "a")
    regex = guides.regex("a+").bind(VOCABULARY)
    for end in VOCABULARY.eos_ids:
        ended = regex.advance(open_end, end)
        assert regex.finished(ended)
        assert ended != open_end


def test_control_and_padding_tokens_are_banned_everywhere() -> None:
    """Even in free text, where an engine without their ids would take them for their names."""
    guide = guides.json_schema({"type": "string"}).bind(VOCABULARY)
    for text in ("", '"', '"a'):
        row = guide.bias(after(guide, text))
        assert row[CONTROL] == row[-1] == -torch.inf
        with pytest.raises(ValueError, match="banned"):
            guide.advance(after(guide, text), CONTROL)


@pytest.mark.parametrize("size", [len(TOKENS) + 3, 128, 160, 161])
def test_mask_is_as_wide_as_the_logits(size: int) -> None:
    """The engine's own may be a word longer, or end inside a byte."""
    vocabulary = TableVocabulary(TOKENS + [b""] * (size - len(TOKENS)), {len(TOKENS)})
    guide = guides.json_schema({"type": "string"}).bind(vocabulary)
    assert b"a" in allowed(guide, after(guide, '"', vocabulary), vocabulary)


def test_unfinished_name_is_only_what_a_name_may_be() -> None:
    """With separators of its own the engine once took quotes of another kind for an end."""
    guide = guides.json_schema(CLOSED).bind(VOCABULARY)
    assert allowed(guide, after(guide, '{"a')) == {b'"', b'": '}


def test_states_are_values(tiny_tokenizer: ByteTokenizer) -> None:
    """Equal where their texts are, however the texts were spelled."""
    guide = guides.json_schema({"type": "string"}).bind(tiny_tokenizer)
    spelled = {token: i for i, token in enumerate(tiny_tokenizer.token_bytes)}
    start = guide.advance(guide.init(), spelled[b'"'])
    one = guide.advance(start, spelled[b"bug"])
    other = start
    for byte in b"bug":
        other = guide.advance(other, spelled[bytes([byte])])
    assert one == other
    assert hash(one) == hash(other)
    assert one != start


@pytest.mark.parametrize("schema", [CLOSED, {"enum": ["bug", "billing"]}])
def test_forced_run_stops_where_another_spelling_could_follow(
    schema: Any, tiny_tokenizer: ByteTokenizer
) -> None:
    """Only tokens that no continuation would change; all of them where nothing follows."""
    guide = guides.json_schema(schema).bind(tiny_tokenizer)
    forced = tiny_tokenizer.decode(guide.forced(guide.init()))
    assert b'{"a": "'.startswith(forced) or b'"'.startswith(forced)
    whole = guides.json_schema({"const": "bug report"}).bind(tiny_tokenizer)
    assert tiny_tokenizer.decode(whole.forced(whole.init())) == b'"bug report"'


def test_importing_grammars_loads_no_grammar_engine() -> None:
    """It is loaded when the first grammar is bound."""
    code = (
        "import sys; from weighbridge.local_engine import guides; guides.json_schema;"
        "print([n for n in ('llguidance', 'xgrammar', 'outlines_core') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.models
def test_real_masks_are_byte_complete(models: Engine) -> None:
    """Where the engine by default would allow the canonical token alone."""
    schema = {
        "type": "object",
        "properties": {"category": {"enum": ["billing", "bug"]}},
        "required": ["category"],
        "additionalProperties": False,
    }
    vocabulary = models.vocabulary
    guide = guides.json_schema(schema).bind(vocabulary)
    assert allowed(guide, guide.init(), vocabulary) == {b"{", b'{"'}
    names = {b"c", b"ca", b"cat", b"category"}
    assert allowed(guide, after(guide, '{"', vocabulary), vocabulary) == names
    forced = guide.forced(guide.init())
    assert b"".join(vocabulary.token_bytes[i] for i in forced) == b'{"category": "'
