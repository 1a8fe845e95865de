"""The local engine as a provider: the only bridge between the router and torch."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Protocol

import httpx

from weighbridge.decision import FailureKind, FieldEvidence, Json, Reason, label
from weighbridge.errors import EngineError, ExtraMissing, LearnedUnfit, SchemaRefused
from weighbridge.local_engine import language
from weighbridge.local_engine.catalogue import locate
from weighbridge.providers.protocol import Approach, Failure, Inquiry, Reply, Weighed
from weighbridge.schemas.labels import Label
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import JudgedField, Task
from weighbridge.schemas.ticket import Ticket

if TYPE_CHECKING:
    from weighbridge.local_engine.engine import Engine
    from weighbridge.local_engine.learned.head import Head
    from weighbridge.local_engine.models.convert import Precision
    from weighbridge.local_engine.tickets import Weighed as WeighedTicket
    from weighbridge.local_engine.weighing import FieldSpec, FieldWeights

_WORTH_A_NOTE = 0.0005  # of the posterior
_PACKAGES = ("torch", "safetensors", "tokenizers", "gguf", "numpy", "jinja2", "py3langid")


class LearnedSource(Protocol):
    """Where what people taught the engine comes from."""

    def used(self, task: str) -> Mapping[str, tuple[int, bytes]]:
        """Version and artefact that count now, by field of a task.

        It is asked for every ticket, and gives the same object for as long as nothing changes.
        """
        ...

    def close(self) -> None:
        """Let go of what it holds; harmless when repeated."""
        ...


class LocalProvider:
    """Weighs every answer of a finite task on this machine.

    The engine is loaded when the first ticket comes, and works on one ticket at a time in a
    thread of its own.

    Args:
        name: the configured name.
        model: a known local model, or the path of a GGUF file.
        prior: a known sentence encoder or a folder with one; None for none.
        precision: of the weights; None for int8 on a CPU, bfloat16 on a GPU.
        threads: torch threads; None leaves torch's own choice.
        max_ticket_tokens: longer tickets are cut in the middle.
        timeout_s: limit of one ticket, the first one's loading included.
        reserve_s: time that providers before this one leave over for it.
        learned: what verdicts taught; None: nothing.
    """

    is_remote = False

    def __init__(
        self,
        *,
        name: str = "local",
        model: str = "smollm2-135m",
        prior: str | None = "all-minilm-l6-v2",
        precision: Precision | None = None,
        threads: int | None = None,
        max_ticket_tokens: int = 1024,
        timeout_s: float = 60.0,
        reserve_s: float = 8.0,
        learned: LearnedSource | None = None,
    ) -> None:
        self.name, self.model = name, model
        self.timeout_s, self.reserve_s = timeout_s, reserve_s
        self.identity, self.weight = f"local {model}", 1.0
        self._prior, self._precision, self._threads = prior, precision, threads
        self._max_ticket_tokens = max_ticket_tokens
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weighbridge-local")
        self._engine: Engine | None = None
        self._learned = learned
        self._heads: dict[str, _Heads] = {}

    def check(self) -> None:
        """See whether the engine could load, without loading it.

        Raises:
            ExtraMissing: a package of the extra [local] is not installed.
            ModelUnknown, ModelMissing: a model is not there.
        """
        for package in _PACKAGES:
            if importlib.util.find_spec(package) is None:
                raise ExtraMissing("local", package)
        locate(self.model, "generator")
        if self._prior is not None:
            locate(self._prior, "encoder")

    def approach(self, task: Task) -> Approach:
        """The original schema, if its language is finite; reasons first are not for this engine.

        Raises:
            SchemaRefused: it is not.
        """
        if task.language is None:
            raise SchemaRefused(
                "the local engine",
                "",
                "type",
                "the answers cannot be listed",
                "Use enums, booleans and small integers, or add a provider that writes text.",
            )
        schema = SchemaPlan(
            dialect="local",
            name=task.name,
            original=task.schema,
            wire=dict(task.schema),
            losses=(),
        )
        dropped = [
            *(["logit_bias"] if task.logit_bias else []),
            *(["reasoning"] if task.reasoning else []),
        ]
        return Approach(mode="native", schema=schema, dropped=tuple(dropped))

    def learn(self, failure: Failure, inquiry: Inquiry) -> bool:
        """What the engine can do does not change."""
        return False

    async def ask(
        self, client: httpx.AsyncClient, inquiry: Inquiry, *, timeout_s: float
    ) -> Reply | Failure:
        """Weigh one ticket; see `Provider.ask`. A forward pass that has begun is not broken off."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                return await loop.run_in_executor(
                    self._worker, self._weigh, inquiry.task, inquiry.ticket
                )
        except TimeoutError:
            detail = "the local engine needs more time"
            return Failure(kind=FailureKind.TRANSIENT, detail=detail, retry=False)
        except EngineError as error:
            detail = f"{error}. {error.hint}".strip()
            return Failure(kind=FailureKind.UNAVAILABLE, detail=detail)

    async def weigh(
        self,
        client: httpx.AsyncClient,
        inquiry: Inquiry,
        reply: Reply,
        value: Json,
        *,
        timeout_s: float,
    ) -> Weighed:
        """What the engine found with the answer; see `Provider.weigh`."""
        assert reply.evidence is not None
        return Weighed(evidence=reply.evidence)

    def worst_case(self, inquiry: Inquiry) -> tuple[int, int]:
        """Nobody counts the engine's tokens."""
        return 0, 0

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Nothing is paid to anybody."""
        return 0.0

    def close(self) -> None:
        """Let the thread go; a later ticket would fail."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        if self._learned is not None:
            self._learned.close()

    def _weigh(self, task: Task, ticket: Ticket) -> Reply:
        engine = self._loaded()
        assert task.language is not None  # plan() has refused everything else
        heads = self._heads_for(task, engine)
        prompt = task.prompt(ticket)
        weighed = engine.weigh(
            prompt.system,
            prompt.user,
            task.language,
            [field_spec(field) for field in task.fields],
            {
                field.path: heads.by_field[field.name]
                for field in task.fields
                if field.name in heads.by_field
            },
        )
        notes = _notes(weighed)
        return Reply(
            text=json.dumps(weighed.weights.value, ensure_ascii=False),
            finish_reason="stop",
            model=self.model + heads.suffix,
            evidence={
                field.name: _evidence(weights, field, (*notes, *heads.notes.get(field.name, ())))
                for field, weights in zip(task.fields, weighed.weights.fields, strict=True)
            },
            concerns=(Reason.LANGUAGE,) if weighed.is_foreign else (),
        )

    def _loaded(self) -> Engine:
        if self._engine is None:
            self.check()
            if self._prior is not None:
                language.prepare()  # beside the import of torch, which takes a second
            from weighbridge.local_engine.engine import Engine

            self._engine = Engine.load(
                self.model,
                prior=self._prior,
                precision=self._precision,
                threads=self._threads,
                max_ticket_tokens=self._max_ticket_tokens,
            )
        return self._engine

    def _heads_for(self, task: Task, engine: Engine) -> _Heads:
        """What counts for the task now; read anew only when another version does."""
        used = {} if self._learned is None else self._learned.used(task.name)
        known = self._heads.get(task.name)
        if known is None or known.used is not used:
            known = self._heads[task.name] = _read_heads(used, engine)
        return known


class _Heads(NamedTuple):
    """The heads of a task.

    Args:
        used: what they were read from.
        by_field: those that fit.
        notes: about those that do not, by field.
        suffix: of the model's name. What is calibrated for one version holds for no other.
    """

    used: Mapping[str, tuple[int, bytes]]
    by_field: Mapping[str, Head]
    notes: Mapping[str, tuple[str, ...]]
    suffix: str


def _read_heads(used: Mapping[str, tuple[int, bytes]], engine: Engine) -> _Heads:
    if not used or engine.models is None:
        return _Heads(used, {}, {}, "")
    from weighbridge.local_engine.learned.artefact import unpack

    heads, notes, versions = {}, {}, []
    for field, (version, artefact) in sorted(used.items()):
        try:
            heads[field] = unpack(artefact, engine.models)
            versions.append(version)
        except LearnedUnfit as error:
            # The label prior is still there: a ticket is weighed without what was learned.
            notes[field] = (f"learned_unused: version {version}: {error.problem}",)
    suffix = "+learned." + ".".join(str(version) for version in versions) if versions else ""
    return _Heads(used, heads, notes, suffix)


def field_spec(field: JudgedField) -> FieldSpec:
    """A judged field as the engine weighs it."""
    from weighbridge.local_engine.prior import LabelText
    from weighbridge.local_engine.weighing import FieldSpec

    texts = []
    for option in field.options if field.has_topics else ():
        known = field.labels.get(label(option), Label())
        texts.append(
            LabelText(name=label(option), description=known.description, phrases=known.phrases)
        )
    return FieldSpec(path=field.path, options=field.options, labels=tuple(texts))


def _evidence(weights: FieldWeights, field: JudgedField, notes: tuple[str, ...]) -> FieldEvidence:
    options = {label(o): p for o, p in zip(weights.options, weights.posterior, strict=True)}
    return FieldEvidence(
        value=weights.value,
        source="exact" if weights.prior is None else "combined",
        probability=options[label(weights.value)],
        mass=weights.mass,
        support=weights.support,
        options=options,
        required=field.required,
        notes=notes,
    )


def _notes(weighed: WeighedTicket) -> tuple[str, ...]:
    notes = []
    if weighed.read_tokens < weighed.ticket_tokens:
        notes.append(
            f"ticket_truncated: the beginning and the end were read, {weighed.read_tokens} of "
            f"{weighed.ticket_tokens} tokens"
        )
    if weighed.weights.dropped >= _WORTH_A_NOTE:
        notes.append(f"branches_dropped: {weighed.weights.dropped:.4f} of the posterior")
    return tuple(notes)
