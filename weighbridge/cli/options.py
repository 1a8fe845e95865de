"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Instead of the nearest weighbridge.toml.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
