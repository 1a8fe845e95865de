"""Which language a ticket is written in, as far as the label prior cares: English or not.

The sentence encoder knows English only. What it makes of other languages is noise, and noise can
look confident, so a ticket in another language goes to a person.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any

# Nigerian Pidgin shares its words with English; short English texts are often taken for it.
_ENGLISH = frozenset({"en", "pcm"})
_SURE = 0.4
_ENOUGH_CHARACTERS = 4_000


def is_foreign(text: str) -> bool:
    """Whether the text is, with some certainty, in a language other than English.

    On the English development tickets of banking77, CLINC150 and MultiDoGO (890 rows) this
    is never true; texts of one or two words mostly stay undecided and count as English.

    >>> is_foreign("Ich kann mich seit gestern nicht mehr anmelden.")
    True
    >>> is_foreign("I was charged twice, refund please")
    False
    """
    language, probability = _identifier().result().classify(text[:_ENOUGH_CHARACTERS])
    return language not in _ENGLISH and float(probability) >= _SURE


def prepare() -> None:
    """Begin to load what tells languages apart, on another thread; `is_foreign` waits for it."""
    _identifier()


@lru_cache(maxsize=1)
def _identifier() -> Future[Any]:
    # Half a second to unpack its model, most of it outside Python: it goes well beside the weights.
    executor = ThreadPoolExecutor(1, thread_name_prefix="weighbridge-language")
    loading = executor.submit(_load)
    executor.shutdown(wait=False)
    return loading


def _load() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
