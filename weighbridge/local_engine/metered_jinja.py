"""A Jinja sandbox that counts what a template does, and ends one that does too much.

Jinja's own sandbox keeps a template from reaching out, not from running for ever or filling memory.
Here every turn of a loop, call, filter, test, comparison, new list and written text is charged with
the size of what goes in and what comes out. What makes much out of little in one step (powers,
formatting to a width, most methods of the built-in types) is not there at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from functools import wraps
from types import BuiltinMethodType
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

# In nanoseconds, roughly; a hundred turns of a conversation take some 20 milliseconds.
BUDGET_NS = 1_000_000_000
_STEP_NS, _ITEM_NS, _CHARACTER_NS = 5_000, 1_000, 10

_MAX_SOURCE = 1 << 18  # characters; the longest in use have a tenth
_MAX_BITS = 64

# fmt: off
_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float",
    "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject",
    "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "sort", "string",
    "title", "tojson", "trim", "unique", "upper",
)
_METHODS = frozenset((
    "capitalize", "count", "endswith", "find", "get", "index", "isalpha", "isdigit", "isspace",
    "items", "join", "keys", "lower", "lstrip", "partition", "removeprefix", "removesuffix",
    "replace", "rfind", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith",
    "strip", "title", "upper", "values",
))
# fmt: on


class Opaque(dict[str, str]):
    """A small mapping that is charged as one item, however often a template looks at it."""


class TooMuch(Exception):
    """A template has used up what it may do."""


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """See the module; one template at a time."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, extensions: Sequence[type[Extension] | str]) -> None:
        self._left_ns = BUDGET_NS
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=extensions, finalize=self.charged
        )
        self.filters = {name: self.metered(self.filters[name]) for name in _FILTERS}
        self.tests = {name: self.metered(test) for name, test in self.tests.items()}
        self.concat = self._concat  # type: ignore[method-assign]  # declared as the plain "".join

    def compiled(self, source: str) -> Template:
        """A template whose every step is charged; raises whatever reading it leads to."""
        if len(source) > _MAX_SOURCE:
            raise TooMuch(f"it is longer than {_MAX_SOURCE} characters")
        self._left_ns = BUDGET_NS
        tree = _Metering().visit(self.parse(source))
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def rendered(self, template: Template, variables: Mapping[str, Any]) -> str:
        """What a template writes; raises whatever it leads to, `TooMuch` among it."""
        self._left_ns = BUDGET_NS
        return template.render(variables)

    def metered(self, function: Any) -> Callable[..., Any]:
        """A filter or test that is charged for what it is given and what it makes."""
        grows = getattr(function, "__name__", "") in ("do_replace", "sync_do_join", "do_join")

        @wraps(function)  # and the marks that say what else Jinja passes to it
        def charged(*args: Any, **kwargs: Any) -> Any:
            self.charged((args, kwargs))
            if grows:
                self._charge_product(args[1:], kwargs)
            return self.charged(function(*args, **kwargs))

        return charged

    def charged(self, value: Any) -> Any:
        """The value itself, once its size has been paid."""
        cost, waiting = _STEP_NS, [value]
        while waiting:
            each = waiting.pop()
            cost += _ITEM_NS
            if isinstance(each, str):
                cost += len(each) * _CHARACTER_NS
            elif isinstance(each, range):
                cost += len(each) * _ITEM_NS
            elif isinstance(each, Mapping) and not isinstance(each, Opaque):
                waiting += [*each.keys(), *each.values()]
            elif isinstance(each, list | tuple | AbstractSet | KeysView | ValuesView):
                waiting += each
            if cost + len(waiting) * _ITEM_NS > self._left_ns:
                raise TooMuch("it does more than a template should")
        self._left_ns -= cost
        return value

    def turn(self) -> bool:
        """One turn of a loop; always true, so that it can stand before a loop's condition."""
        self.charged(None)
        return True

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call what a template calls; the names are those of the base class."""
        if isinstance(__obj, BuiltinMethodType):
            owner = __obj.__self__
            if __obj.__name__ not in _METHODS:
                raise SecurityError(f"a template may not call {__obj.__name__}")
            __self.charged((owner, args, kwargs))
            if __obj.__name__ in ("replace", "join"):
                __self._charge_product((owner, *args), kwargs)
        else:
            __self.charged((args, kwargs))
        return __self.charged(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Sums and products of bounded size; no powers, no formatting."""
        both = left, right
        self.charged(both)
        if operator != "+":
            if operator == "**" or not all(isinstance(side, int | float) for side in both):
                raise SecurityError(f"a template may not use {operator} here")
            if any(isinstance(side, int) and side.bit_length() > _MAX_BITS for side in both):
                raise TooMuch("its numbers are too large")
        return self.charged(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> None:
        """`str.format` stays the method that `call` refuses: it can fill any width."""

    def _concat(self, pieces: Iterable[str]) -> str:
        return "".join(self.charged(piece) for piece in pieces)

    def _charge_product(self, args: Any, kwargs: Any) -> None:
        """What replacing and joining may at most make: each place times each text put there."""
        sizes = [len(a) if isinstance(a, str) else _length(a) for a in (*args, *kwargs.values())]
        largest, second = sorted((0, 0, *sizes))[-1:-3:-1]
        if (largest + 1) * second * _CHARACTER_NS > self._left_ns:
            raise TooMuch("it does more than a template should")


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 1


class _Metering(NodeTransformer):
    """Puts a charge wherever Jinja itself would do something without asking the environment."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802  # as Jinja calls it
        self.generic_visit(node)
        turn = _ask("turn", [], node)
        node.body.insert(0, nodes.ExprStmt(turn, lineno=node.lineno))
        if node.test is not None:
            node.test = nodes.And(_ask("turn", [], node), node.test, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        """`a ~ b` as the sum of two texts, which the environment is asked for."""
        self.generic_visit(node)
        texts: list[nodes.Expr] = [
            nodes.Filter(part, "string", [], [], None, None, lineno=node.lineno)
            for part in node.nodes
        ]
        whole = texts[0]
        for text in texts[1:]:
            whole = nodes.Add(whole, text, lineno=node.lineno)
        return whole

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _ask("charged", [node], node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        self.generic_visit(node)
        node.expr = _ask("charged", [node.expr], node)
        for operand in node.ops:
            operand.expr = _ask("charged", [operand.expr], node)
        return node

    def visit_List(self, node: nodes.Literal) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _ask("charged", [node], node)

    visit_Dict = visit_List  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _ask("charged", [node], node) if node.ctx == "load" else node


def _ask(name: str, args: list[nodes.Expr], node: nodes.Node) -> nodes.Call:
    function = nodes.EnvironmentAttribute(name, lineno=node.lineno)
    return nodes.Call(function, args, [], None, None, lineno=node.lineno)
