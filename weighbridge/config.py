"""Settings → objects: the one place where all parts are put together."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from weighbridge.errors import ConfigError, KeyMissing, TaskInvalid
from weighbridge.provider_config import build_provider
from weighbridge.schemas.task import Task
from weighbridge.setting_sections import Labels, RemoteSettings
from weighbridge.settings import Settings
from weighbridge.webhook_config import build_subscriptions

if TYPE_CHECKING:
    from weighbridge.capability import Ledger
    from weighbridge.providers.protocol import Provider
    from weighbridge.review.learning.versions import LearnedVersions, UsedVersions
    from weighbridge.review.proving.audit import AuditCoin
    from weighbridge.review.proving.guarantees import Guarantees
    from weighbridge.review.proving.metrics import Metrics
    from weighbridge.review.proving.rulings import Rulings
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.router.admission import Admission
    from weighbridge.router.cache import DecisionCache
    from weighbridge.router.chain import Policy
    from weighbridge.router.gate import Gate
    from weighbridge.router.limits import Limiter
    from weighbridge.router.queueing import Queue
    from weighbridge.router.router import Router
    from weighbridge.schemas.redaction import Redactor
    from weighbridge.store.database import Database
    from weighbridge.store.health import SharedHealth
    from weighbridge.store.ledger import CapabilityLedger

_logger = logging.getLogger(__name__)


def build_task(settings: Settings) -> Task:
    """The task that `triage` asks.

    Raises:
        ConfigError: labels that cannot be used.
    """
    chosen = settings.task
    given: dict[str, Any] = {}
    for name in ("categories", "priorities"):
        labels: Labels | None = getattr(chosen, name)
        if labels is not None:
            given[name] = _plain_labels(labels)
    if chosen.instructions is not None:
        given["instructions"] = chosen.instructions
    required = {"category": True} | {name: f.required for name, f in chosen.fields.items()}
    given["required"] = [name for name, needed in required.items() if needed]
    try:
        return Task.triage(**given)
    except TaskInvalid as error:
        raise ConfigError("[task]", error.pointer.strip("/"), error.problem, error.hint) from None


def build_redactor(settings: Settings) -> Redactor | None:
    """What hides personal data from providers away from this machine; None where nothing does.

    Raises:
        ConfigError: an unknown pattern, or one that is no regular expression.
    """
    return _build_redactor(settings) if settings.redaction.enabled else None


def _build_redactor(settings: Settings) -> Redactor:
    from weighbridge.schemas.redaction import Redaction

    chosen = settings.redaction
    try:
        return Redaction(built_in=chosen.built_in, extra=chosen.extra).redactor()
    except ValueError as error:
        raise ConfigError("[redaction]", "", str(error)) from None


def open_queue(settings: Settings) -> ReviewQueue:
    """The review queue.

    Raises:
        QueueUnavailable: the database cannot be opened.
    """
    return _build_queue(settings, open_database(settings))


@contextmanager
def open_guarantees(settings: Settings) -> Iterator[Guarantees]:
    """What audits prove of the machine's answers.

    Raises:
        QueueUnavailable: the database cannot be opened.
    """
    from weighbridge.review.proving.guarantees import Guarantees

    with closing(open_database(settings)) as database:
        yield Guarantees(database, audit_rate=settings.review.audit_rate)


@contextmanager
def open_learned(settings: Settings) -> Iterator[LearnedVersions]:
    """What was learned from verdicts, and the verdicts.

    Raises:
        QueueUnavailable: the database cannot be opened.
    """
    from weighbridge.review.learning.versions import LearnedVersions

    with closing(open_database(settings)) as database:
        yield LearnedVersions(database)


def measured(settings: Settings) -> Metrics:
    """Queue, people and answers in numbers, now.

    Raises:
        QueueUnavailable: the database cannot be opened or read.
    """
    from weighbridge.review.proving.measuring import measure

    with closing(open_database(settings)) as database:
        return measure(database, audit_rate=settings.review.audit_rate)


@contextmanager
def open_ledger(settings: Settings) -> Iterator[CapabilityLedger]:
    """What was probed and learned of endpoints, written down when the block ends.

    Raises:
        QueueUnavailable: the database cannot be opened.
    """
    from weighbridge.store.ledger import CapabilityLedger

    with closing(open_database(settings)) as database, closing(CapabilityLedger(database)) as it:
        yield it


@contextmanager
def open_health(settings: Settings) -> Iterator[SharedHealth]:
    """Who is left alone by the routers of all processes.

    Raises:
        QueueUnavailable: the database cannot be opened.
    """
    from weighbridge.store.health import SharedHealth

    with closing(open_database(settings)) as database, closing(SharedHealth(database)) as it:
        yield it


def open_database(settings: Settings) -> Database:
    """The database of queue and ledger.

    Raises:
        QueueUnavailable: it cannot be opened.
    """
    from weighbridge.store.database import Database

    return Database(settings.review.database or default_database())


def default_database() -> str:
    """A SQLite file in the user's data folder."""
    folder = Path(platformdirs.user_data_dir("weighbridge"))
    return f"sqlite:///{folder / 'weighbridge.db'}"


def build_router(settings: Settings, queue: Queue | None = None) -> Router:
    """Put a router together; see `Router.from_config`.

    Args:
        settings: the whole configuration.
        queue: what takes the place of the review queue, to see how answers are weighed: every one
            is asked for anew then, and neither coin nor certificate has a say.
    """
    from weighbridge.review.proving.rulings import Rulings
    from weighbridge.router.chain import Policy
    from weighbridge.router.gate import Gate
    from weighbridge.router.router import Router
    from weighbridge.router.telemetry import Telemetry
    from weighbridge.store.ledger import CapabilityLedger

    gate = Gate(**settings.gate.model_dump())
    policy = Policy(
        strategy=settings.router.strategy,
        max_attempts=settings.router.max_attempts,
        stronger=frozenset(settings.router.stronger),
        hedge_after=settings.router.hedge_after,
    )
    with ExitStack() as on_error:
        database = on_error.enter_context(closing(open_database(settings)))
        ledger = on_error.enter_context(closing(CapabilityLedger(database)))
        learned = _build_learned(settings, database)
        if learned is not None:
            on_error.callback(learned.close)
        providers = _build_providers(settings, ledger, learned)
        rulings = None
        if queue is None:
            rulings = on_error.enter_context(closing(Rulings(database)))
        router = Router(
            providers,
            queue or _build_queue(settings, database),
            coin=None if queue else _build_coin(settings, database),
            rulings=rulings,
            ledger=ledger,
            redact=build_redactor(settings),
            admission=_build_admission(settings, database),
            cooldowns=_build_cooldowns(settings, database),
            cache=None
            if rulings is None
            else _build_cache(settings, database, providers, gate, policy, rulings, learned),
            task=build_task(settings),
            gate=gate,
            policy=policy,
            deadline_s=settings.router.deadline,
            telemetry=Telemetry(opentelemetry=settings.telemetry.opentelemetry),
        )
        on_error.pop_all()  # from here on the router closes them
        return router


def _build_queue(settings: Settings, database: Database) -> ReviewQueue:
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.review.queueing.ordering import HEAD_STARTS_S

    chosen = settings.review
    redactor = _build_redactor(settings) if settings.redaction.queue else None
    return ReviewQueue(
        database,
        needed=chosen.overlap,
        audits_needed=chosen.audit_overlap,
        head_start_s=HEAD_STARTS_S[chosen.order],
        redact=None if redactor is None else lambda text: redactor(text).text,
        subscriptions=build_subscriptions(settings),
    )


def _build_coin(settings: Settings, database: Database) -> AuditCoin | None:
    """The audit coin; None where nothing is drawn, so that nothing is asked of the database."""
    if not settings.review.audit_rate:
        return None
    from weighbridge.review.proving.audit import AuditCoin
    from weighbridge.store.secret import shared_secret

    secret = shared_secret(database, "audit coin")
    return AuditCoin(secret=secret, rate=settings.review.audit_rate)


def _build_admission(settings: Settings, database: Database) -> Admission:
    """Limits and budget, as far as any are configured."""
    from weighbridge.router.admission import Admission
    from weighbridge.router.budget import Budget, Caps

    remote = [chosen for chosen in settings.asked if isinstance(chosen, RemoteSettings)]
    limiters = {chosen.name: found for chosen in remote if (found := _build_limiter(chosen))}
    caps = Caps(
        usd_per_day=settings.budget.usd_per_day,
        usd_per_ticket=settings.budget.usd_per_ticket,
        provider_usd_per_day={
            chosen.name: chosen.usd_per_day for chosen in remote if chosen.usd_per_day is not None
        },
    )
    if caps == Caps():
        return Admission(limiters)
    from weighbridge.store.budget import SharedBooks

    return Admission(limiters, Budget(caps, SharedBooks(database)))


def _build_limiter(chosen: RemoteSettings) -> Limiter | None:
    numbers = chosen.requests_per_minute, chosen.tokens_per_minute, chosen.max_concurrency
    if numbers == (None, None, None):
        return None
    from weighbridge.router.limits import Limiter, Limits

    requests, tokens, concurrency = numbers
    limits = Limits(
        requests_per_minute=requests, tokens_per_minute=tokens, max_concurrency=concurrency
    )
    return Limiter(limits, clock=time.monotonic, sleep=asyncio.sleep)


def _build_cooldowns(settings: Settings, database: Database) -> SharedHealth | None:
    if not settings.router.share_health:
        return None
    from weighbridge.store.health import SharedHealth

    return SharedHealth(database)


def _build_cache(
    settings: Settings,
    database: Database,
    providers: Sequence[Provider],
    gate: Gate,
    policy: Policy,
    rulings: Rulings,
    learned: UsedVersions | None,
) -> DecisionCache | None:
    chosen = settings.decision_cache
    if not chosen.enabled:
        return None
    from weighbridge.router.cache import Cache, DecisionCache, MemoryCache
    from weighbridge.store.cache import SharedCache

    entries, age_s = chosen.max_entries, chosen.max_age
    kept: Cache = MemoryCache(max_entries=entries, max_age_s=age_s)
    if chosen.kind == "database":
        kept = SharedCache(database, max_entries=entries, max_age_s=age_s)
    asked = json.dumps([one.model_dump(mode="json") for one in settings.asked], sort_keys=True)
    return DecisionCache(
        kept,
        providers=providers,
        gate=gate,
        policy=policy,
        rulings=rulings,
        learned=learned,
        settings=hashlib.sha256(asked.encode()).hexdigest(),
    )


def _build_learned(settings: Settings, database: Database) -> UsedVersions | None:
    """What verdicts taught; None where no local engine could use it."""
    if all(isinstance(chosen, RemoteSettings) for chosen in settings.asked):
        return None
    from weighbridge.review.learning.versions import UsedVersions

    return UsedVersions(database)


def _build_providers(
    settings: Settings, ledger: Ledger, learned: UsedVersions | None
) -> list[Provider]:
    """All providers; those whose key is missing stand in for themselves with the reason.

    Raises:
        ConfigError, EngineError: nobody is left who could answer. Better an error now than none.
    """
    from weighbridge.providers.absent import AbsentProvider
    from weighbridge.providers.local import LocalProvider

    providers: list[Provider] = []
    missing: KeyMissing | None = None
    for chosen in settings.asked:
        try:
            providers.append(build_provider(chosen, ledger, learned))
        except KeyMissing as error:
            missing = error
            providers.append(
                AbsentProvider(name=chosen.name, model=chosen.model, reason=error.problem)
            )
    present = [one for one in providers if not isinstance(one, AbsentProvider)]
    if missing is not None and not present:
        raise missing
    wants_second = settings.gate.without_evidence == "second_opinion"
    if missing is not None and wants_second and len(present) == 1:
        _logger.warning("nobody gives a second opinion beside %r: %s", present[0].name, missing)
    if all(isinstance(one, LocalProvider) for one in present):
        for one in present:
            assert isinstance(one, LocalProvider)
            one.check()
    return providers


def _plain_labels(labels: Labels) -> Any:
    if isinstance(labels, list):
        return labels
    return {name: meaning.model_dump() for name, meaning in labels.items()}
