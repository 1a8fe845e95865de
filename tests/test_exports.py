"""The public names: one list, and reality agrees with it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weighbridge


def test_public_names_are_sorted_and_each_has_a_home() -> None:
    assert weighbridge.__all__ == sorted(weighbridge.__all__)
    assert set(weighbridge.__all__) == set(weighbridge._HOMES)


def test_type_checkers_see_the_same_names() -> None:
    """What resolves lazily at run time is imported plainly for them."""
    tree = ast.parse(Path(weighbridge.__file__).read_text("utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.asname: f"{node.module}".removeprefix("weighbridge.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == weighbridge._HOMES


@pytest.mark.parametrize("name", weighbridge.__all__)
def test_public_name_resolves_to_something_of_that_name(name: str) -> None:
    assert getattr(weighbridge, name).__name__ == name


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        weighbridge.nothing_of_ours  # noqa: B018  # the access is the test
