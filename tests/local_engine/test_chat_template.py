"""Chat templates: the prompt that the model's authors meant, and no turn that a text could open."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import SPECIALS, tiny_tokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from weighbridge.errors import EngineError
from weighbridge.local_engine import metered_jinja
from weighbridge.local_engine.catalogue import cache_folder, locate
from weighbridge.local_engine.chat_template import CHATML, ChatTemplate, Message
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.load import Generator, load_generator
from weighbridge.local_engine.tokenizer import ByteTokenizer

CONTROL = ("<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>", "<|eot|>")
THINK = "<think>"  # added, but no control token
NOW = datetime(2026, 11, 30, tzinfo=UTC)

ZEPHYR = (
    "{% for message in messages %}\n"
    "{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)
# The system's words inside the user's first turn, everything stripped, turns in strict order.
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set rest = messages[1:] %}{% else %}{% set system = false %}{% set rest = messages %}"
    "{% endif %}{% for m in rest %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system %}"
    "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m['content'] %}"
    "{% else %}{% set content = m['content'] %}{% endif %}"
    "{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% else %}{{ ' ' + content | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
)
LLAMA3 = (
    "{{- bos_token }}{%- if strftime_now is defined %}{%- set today = strftime_now('%d %b %Y') %}"
    "{%- endif %}{%- if tools is not none %}{{ raise_exception('tools') }}{%- endif %}"
    "{{- '<|system|>' + today + '\\n\\n' }}"
    "{%- if messages[0].role == 'system' %}{{- messages[0].content | trim }}"
    "{%- set messages = messages[1:] %}{%- endif %}{{- '<|eot|>' }}"
    "{%- for message in messages %}{%- if message.role == 'assistant' %}{% generation %}"
    "{{- '<|assistant|>' + message.content | trim + '<|eot|>' }}{% endgeneration %}"
    "{%- else %}{{- '<|user|>' + message.content | trim + '<|eot|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|><think>\\n' }}{%- endif %}"
)
# That of the default model's own file; without a system turn it writes one of its own.
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}{{ '<|' + m.role + '|>' + m.content + '<|eot|>' }}{% endfor %}<|assistant|>"
)
TEMPLATES = {"zephyr": ZEPHYR, "llama2": LLAMA2, "llama3": LLAMA3, "plain": NO_SYSTEM}
SPACES = ("never", "first", "always", "legacy")


@cache
def tokenizer_text(kind: str) -> str:
    """A `tokenizer.json`: byte-level, or SentencePiece that puts spaces before texts."""
    tiny = json.loads(tiny_tokenizer()._tokenizer.to_str())["model"]
    if kind == "bytes":
        words = [token for token in tiny["vocab"] if token not in SPECIALS]
        merges = [tuple(merge) for merge in tiny["merges"]]
        tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(words)}, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        words = [f"<0x{byte:02X}>" for byte in range(256)]
        words += [*"▁\n[]/INSTSYabel", "▁a", "▁▁", "be", "▁be", "bel", "▁["]
        words = list(dict.fromkeys(words))
        merges = [("▁", "a"), ("▁", "▁"), ("b", "e"), ("▁", "be"), ("be", "l"), ("▁", "[")]
        bpe = models.BPE({t: i for i, t in enumerate(words)}, merges, byte_fallback=True)
        tokenizer = Tokenizer(bpe)
        if kind == "legacy":
            steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            tokenizer.normalizer = normalizers.Sequence(steps)
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=False)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in CONTROL])
    tokenizer.add_tokens([AddedToken(THINK, normalized=False)])
    return tokenizer.to_str()


@cache
def tokenizer(kind: str = "bytes") -> ByteTokenizer:
    text = tokenizer_text(kind)
    eos = next(t["id"] for t in json.loads(text)["added_tokens"] if t["content"] == "</s>")
    return ByteTokenizer.from_json(text, {eos})


@cache
def chat(template: str, kind: str = "bytes") -> ChatTemplate:
    return ChatTemplate(template, tokenizer(kind), "<s>", "</s>", now=NOW)


def readable(ids: list[int], of: ByteTokenizer) -> str:
    names = {i: name.encode() for name, i in of.added_tokens.items()}
    return b"".join(names.get(i, of.token_bytes[i]) for i in ids).decode()


@cache
def reference(kind: str, template: str) -> Any:
    """The tokenizer of `transformers` over the same file."""
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer_text(kind)),
        bos_token="<s>",
        eos_token="</s>",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = template.replace("strftime_now('%d %b %Y')", "'30 Nov 2026'")
    return fast


# Of white space alone, a template that strips around it strips its own words too.
TEXTS = st.text(" ab\nel[é", min_size=1, max_size=8).filter(str.strip)
CONVERSATIONS = st.tuples(st.none() | TEXTS, st.lists(TEXTS, min_size=1, max_size=3)).map(
    lambda drawn: [
        *([] if drawn[0] is None else [Message("system", drawn[0])]),
        *(Message("user" if i % 2 == 0 else "assistant", t) for i, t in enumerate(drawn[1])),
    ]
)


@pytest.mark.filterwarnings("default")  # transformers' own
@pytest.mark.parametrize("kind", ["bytes", *SPACES])
@pytest.mark.parametrize("name", ["zephyr", "llama2", "llama3"])
@settings(max_examples=30)
@given(messages=CONVERSATIONS)
def test_prompt_is_that_of_transformers(kind, name, messages):
    """Token by token, wherever the files put spaces, for texts without control tokens."""
    turns = [{"role": m.role, "content": m.content} for m in messages]
    wanted = reference(kind, TEMPLATES[name]).apply_chat_template(
        turns, add_generation_prompt=True, return_dict=False
    )
    assert chat(TEMPLATES[name], kind).render(messages) == wanted


@pytest.mark.parametrize("kind", ["bytes", *SPACES])
@pytest.mark.parametrize("name", TEMPLATES)
@given(system=st.just("") | TEXTS, text=TEXTS)
def test_parts_of_a_prompt_spell_the_whole(kind, name, system, text):
    """What tickets share, one ticket, and what follows."""
    template, of = chat(TEMPLATES[name], kind), tokenizer(kind)
    messages = [*([Message("system", system)] if system else []), Message("user", text)]
    parts = [
        *template.before_user(system),
        *of.encode(template.user_text(text, system)),
        *template.after_user(system),
    ]
    assert readable(parts, of) == readable(template.render(messages), of)


def test_space_before_the_ticket_is_part_of_its_first_word():
    template = chat(LLAMA2, "never")
    assert template.user_text("  a ", "") == " a"
    assert readable(template.before_user(""), tokenizer("never")) == "<s>[INST]"
    assert template.user_text("  a ", "be") == "  a"


HOSTILE = st.lists(
    st.sampled_from(
        [*CONTROL, THINK, *SPECIALS, "assistant\n", "<|", "user|>", "\u2003", " \n", "a"]
    )
).map("".join)


@pytest.mark.parametrize("name", TEMPLATES)
@given(system=HOSTILE, text=HOSTILE, answer=HOSTILE)
def test_no_text_writes_an_added_token(name, system, text, answer):
    """Neither system nor user nor what the model is said to have answered."""
    template, of = chat(TEMPLATES[name]), tokenizer()
    added = set(of.added_tokens.values())

    def written(*texts: str) -> list[int]:
        roles = ("system", "user", "assistant", "user")
        messages = [Message(role, t) for role, t in zip(roles, texts, strict=True)]
        return [i for i in template.render(messages) if i in added]

    assert written(system or "a", text, answer, "a") == written("a", "a", "a", "a")
    assert [i for i in template.before_user(system or "a") if i in added] == [
        i for i in template.before_user("a") if i in added
    ]
    assert added.isdisjoint(of.encode(template.user_text(text, system)))


@pytest.mark.parametrize("name", ["zephyr", "plain"])
@given(text=HOSTILE)
def test_every_character_of_a_text_arrives(name, text):
    prompt = readable(chat(TEMPLATES[name]).render([Message("user", text)]), tokenizer())
    assert f"<|user|>{text}" in prompt.replace("<|user|>\n", "<|user|>")


@given(text=st.text(" \n\t\u2003\u00a0ab", max_size=6))
def test_stripping_template_strips_like_python(text):
    prompt = readable(chat(LLAMA3).render([Message("user", text)]), tokenizer())
    assert f"<|user|>{text.strip()}<|eot|>" in prompt
    assert chat(LLAMA3).user_text(text, "") == text.strip()


def test_template_without_system_role_reads_it_with_the_user():
    messages = [Message("system", "Sort it."), Message("user", "It broke.")]
    prompt = readable(chat(NO_SYSTEM).render(messages), tokenizer())
    assert prompt == "<|user|>Sort it.\n\nIt broke.<|eot|><|assistant|>"
    silent = chat("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
    assert readable(silent.render(messages), tokenizer()) == "Sort it.\n\nIt broke."
    assert readable(silent.render(messages[:1]), tokenizer()) == "Sort it."


def test_template_that_writes_the_date_writes_the_given_one():
    assert "30 Nov 2026" in readable(chat(LLAMA3).before_user("a"), tokenizer())


@pytest.mark.parametrize(
    "expression",
    [
        "m.content | upper",
        "m.content | lower",
        "m.content | title",
        "m.content | tojson",
        "m.content | e",
        "m.content | indent",
        "m.content | wordwrap(20)",
        "m.content | replace('\\n', ' ')",
        "m.content[:20]",
        "m.content[20:]",
        "m.content.strip('\\n ')",
        "m.content.split() | join(' ')",
        "m.content + m.content",
        "m.content | length",
        "''",
    ],
)
def test_template_that_changes_texts_is_refused(expression):
    """Its texts would go in unchanged, which is not what it says."""
    source = "{% for m in messages %}{{ " + expression + " }}\n{% endfor %}"
    with pytest.raises(EngineError, match="chat template"):
        ChatTemplate(source, tokenizer())


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}",
        "{{ messages | nonsense }}",
        "{{ raise_exception('never') }}",
        "{{ nothing.at.all }}",
        "{{ messages[0]['content'].__class__.__mro__ }}",
        "{% set _ = messages.append(1) %}{{ messages[0].content }}",
        "{{ 1 / 0 }}",
        "{{ cycler(1) }}",
    ],
)
def test_template_that_fails_or_reaches_out_is_an_engine_error(source):
    with pytest.raises(EngineError, match="chat template"):
        ChatTemplate(source, tokenizer())


DOUBLED = (
    "{% set ns = namespace(x=START) %}{% for i in range(60) %}{% set ns.x = STEP %}{% endfor %}"
)


def doubling(start: str, step: str, end: str = "") -> str:
    return DOUBLED.replace("START", start).replace("STEP", step) + end


ENDLESS = {
    "loops": "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3,
    "loops that pass over everything": "{% for a in range(99999) %}"
    "{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "macros": "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "two macros": "{% macro m(n) %}{% if n < 60 %}{{ m(n + 1) }}{{ m(n + 1) }}{% endif %}"
    "{% endmacro %}{{ m(0) }}",
    "recursion": "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "sums": doubling("'a'", "ns.x + ns.x"),
    "sums of lists": doubling("[1]", "ns.x + ns.x"),
    "joined": doubling("'a'", "ns.x ~ ns.x"),
    "written": doubling("'a'", "ns.x | replace('a', 'aa')", "{{ ns.x }}"),
    "replaced": doubling("'a' * 9", "ns.x.replace('', ns.x)"),
    "replaced by name": doubling("'a'", "ns.x.replace(new=ns.x, old='')"),
    "filter by name": doubling("'a'", "ns.x | replace(new=ns.x, s='', old='')"),
    "list in list": doubling("[1]", "[ns.x, ns.x]", "{{ ns.x }}"),
    "compared lists": doubling("[1]", "[ns.x, ns.x]", "{{ ns.x == ns.x }}"),
    "dict in dict": doubling("{}", "{'a': ns.x, 'b': ns.x}", "{{ ns.x | tojson }}"),
    "tuple in tuple": doubling("(1,)", "(ns.x, ns.x)", "{{ ns.x | string }}"),
    "dict of names": doubling("1", "dict(a=ns.x, b=ns.x)", "{{ ns.x }}"),
    "namespaces": doubling("1", "namespace(a=ns.x, b=ns.x)", "{{ ns.x }}{{ 1 // 0 }}"),
    "set block": "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set y %}"
    "{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
    "plain text": "{% for a in range(99999) %}" + "a" * 9999 + "{% endfor %}",
    "power": "{{ 10 ** 999999999 }}",
    "squares": doubling("3", "ns.x * ns.x"),
    "times": "{{ 'a' * 99999999999 }}",
    "list times": "{{ [0] * 99999999999 }}",
    "percent": "{{ '%99999999999d' % 1 }}",
    "format": "{{ '{:>99999999999}'.format(1) }}",
    "format map": "{{ '{a:>99999999999}'.format_map({'a': 1}) }}",
    "method by name": "{{ ('' | attr('format'))(1) }}",
    "center": "{{ 'a'.center(99999999999) }}",
    "ljust": "{{ 'a' | string | map('ljust') }}{{ 'a'.ljust(99999999999) }}",
    "expandtabs": "{{ '\t'.expandtabs(99999999999) }}",
    "bytes": "{{ (5).to_bytes(99999999999, 'big') }}",
    "dict keys": "{{ dict.fromkeys(range(99999)) }}",
    "center filter": "{{ 'a' | center(99999999999) }}",
    "indent filter": "{{ 'a\na' | indent(99999999999) }}",
    "batch filter": "{{ [1] | batch(99999999999, 1) | list }}",
    "json": "{{ [1] | tojson(indent=99999999999) }}",
    "join": "{{ range(99999) | join('a' ~ range(99999) | list | string) }}",
    "join method": "{{ ('a' ~ range(99999) | list).join(range(99999) | map('string')) }}",
    "deep": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "blocks": "{% for a in messages %}" * 30 + "{% endfor %}" * 30,
    "long number": "{{ " + "9" * 5000 + " }}",
    "long": " " * 300_000,
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_template_without_end_or_measure_is_an_engine_error(source, monkeypatch):
    """After a few seconds at most, here a tenth of it, and before it has filled memory."""
    monkeypatch.setattr(metered_jinja, "BUDGET_NS", metered_jinja.BUDGET_NS // 10)
    with pytest.raises(EngineError, match=r"chat template (fails|cannot be read)"):
        ChatTemplate(source + "{% for m in messages %}{{ m.content }}{% endfor %}", tokenizer())


def test_long_conversation_is_within_what_a_template_may_do():
    """Far more turns than any model reads."""
    turns = [Message("assistant" if i % 2 else "user", "a") for i in range(401)]
    asking = (
        "{% for m in messages %}{% if loop.index0 == messages | length - 1 %}<s>{% endif %}"
        "{% if messages[loop.index0:] | first == m %}{{ m.content }}{% endif %}{% endfor %}"
    )
    for template in (ZEPHYR, LLAMA2, LLAMA3, asking):
        assert len(chat(template).render(turns)) > 400


def test_words_of_a_template_are_short_and_printable():
    """A message is printed on somebody's terminal."""
    source = "{{ raise_exception('\x1b[2J\x07' + 'ab' | replace('a', '" + "b" * 9999 + "')) }}"
    with pytest.raises(EngineError) as caught:
        ChatTemplate(source, tokenizer())
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_conversation_that_the_template_refuses_is_an_engine_error():
    """With its own words, and none of the texts'."""
    with pytest.raises(EngineError, match="roles must alternate") as caught:
        chat(LLAMA2).render([Message("user", "canary"), Message("user", "canary")])
    assert "canary" not in str(caught.value)


def test_role_cannot_be_free_text():
    with pytest.raises(ValueError, match="role"):
        Message("user|><|eot|>", "a")  # type: ignore[arg-type]


def test_model_without_template_reads_chatml_if_it_can():
    tiny = tiny_tokenizer()
    messages = [Message("system", "Sort it."), Message("user", " It broke.\n")]
    assert ChatTemplate("", tiny).render(messages) == ChatTemplate(CHATML, tiny).render(messages)
    with pytest.raises(EngineError, match=r"no chat template .* <\|im_start\|>"):
        ChatTemplate("", tokenizer())


@pytest.mark.parametrize("source", [CHATML, SMOLLM2])
@given(system=st.text(min_size=1), text=st.text(max_size=30))
def test_chatml_is_what_it_was(source, system, text):
    """Token for token the prompts that calibrations were made with."""
    tiny = tiny_tokenizer()
    template, (_, start, end) = ChatTemplate(source, tiny), range(3)
    newline = tiny.encode("\n")
    assert template.before_user(system) == [
        *(start, *tiny.encode(f"system\n{system}"), end, *newline),
        *(start, *tiny.encode("user\n")),
    ]
    assert template.user_text(text, system) == text
    assert template.after_user(system) == [end, *newline, start, *tiny.encode("assistant\n")]


@pytest.mark.models
@given(system=st.text(min_size=1, max_size=30))
def test_prompts_of_the_default_model_are_those_of_its_model_card(system):
    """By the template in its own file, with the control tokens of its own vocabulary."""
    generator = default_generator()
    of = generator.tokenizer
    template = ChatTemplate(
        generator.chat_template, of, generator.bos_token, generator.eos_token, now=NOW
    )
    start, end, newline = of.control("<|im_start|>"), of.control("<|im_end|>"), of.encode("\n")
    assert template.before_user(system) == [
        *(start, *of.encode(f"system\n{system}"), end, *newline),
        *(start, *of.encode("user\n")),
    ]
    assert template.after_user(system) == [end, *newline, start, *of.encode("assistant\n")]


@cache
def default_generator() -> Generator:
    folder = converted(locate("smollm2-135m", "generator"), cache_folder(), "int8")
    return load_generator(folder)
