"""`weighbridge review serve`: the review page in a browser."""

from __future__ import annotations

import errno
import socket
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from weighbridge.addresses import is_loopback
from weighbridge.cli.login import login_name
from weighbridge.cli.options import ConfigOption
from weighbridge.cli.output import harmless, stderr, usage
from weighbridge.config import open_database, open_queue
from weighbridge.errors import ConfigError, ExtraMissing
from weighbridge.settings import load_settings
from weighbridge.store.roles import Role
from weighbridge.webhook_config import build_webhooks

if TYPE_CHECKING:
    from weighbridge.service.assembly import Parts

_LINK_S: Final = 600.0
_PORT: Final = 8710


def serve(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = _PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which browsers reach the page; may be given repeatedly."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="For HTTPS: a PEM file.", exists=True, dir_okay=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="For HTTPS: its key.", exists=True, dir_okay=False)
    ] = None,
    behind_proxy: Annotated[
        str | None,
        typer.Option(help="Address of the proxy whose X-Forwarded headers are believed."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Open the review page; on this machine alone unless told otherwise.

    While it runs, webhooks are told and old texts are removed, as the configuration says.
    """
    if (certificate is None) != (key is None):
        usage("--certificate and --key go together")
    try:
        import uvicorn

        from weighbridge.service.assembly import assemble
        from weighbridge.service.hosts import LOOPBACK_NAMES
    except ModuleNotFoundError as error:
        raise ExtraMissing("serve", (error.name or "").partition(".")[0]) from None
    from weighbridge.review.telling.upkeep import kept_up

    is_local = is_loopback(host)
    settings = load_settings(config)
    with closing(open_queue(settings)) as queue, closing(open_database(settings)) as database:
        parts = assemble(
            database,
            queue,
            audit_rate=settings.review.audit_rate,
            hosts=LOOPBACK_NAMES | {name.lower() for name in allow_host or [] if name},
            # Browsers keep such a cookie to themselves where there is no HTTPS, but for loopback.
            is_secure=not is_local or certificate is not None or behind_proxy is not None,
        )
        if not is_local and not parts.has_logins():
            raise ConfigError(
                "weighbridge review serve",
                "--host",
                f"{host} can be reached from elsewhere, and nobody has a password yet",
                "Run: weighbridge review people add NAME --role admin",
            )
        webhooks, retention_s = build_webhooks(settings), settings.review.retention
        with (
            closing(_listen(host, port)) as listener,
            kept_up(database, webhooks=webhooks, retention_s=retention_s),
        ):
            _greet(
                parts,
                listener,
                is_local=is_local,
                has_tls=certificate is not None,
                proxy=behind_proxy,
            )
            uvicorn.Server(
                uvicorn.Config(
                    parts.app,
                    log_level="warning",
                    access_log=False,  # addresses hold one-time keys and search words
                    server_header=False,
                    proxy_headers=behind_proxy is not None,
                    forwarded_allow_ips=behind_proxy or "",
                    ssl_certfile=certificate,
                    ssl_keyfile=key,
                )
            ).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: only then asyncio sends at once, else each page takes 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            "weighbridge review serve",
            f"{host}:{port}",
            error.strerror or "cannot be listened at",
            "Take another port with --port."
            if error.errno in (errno.EADDRINUSE, errno.EACCES)
            else "Give --host an address of this machine, or 0.0.0.0 for all of them.",
        ) from None
    return listener


def _greet(
    parts: Parts, listener: socket.socket, *, is_local: bool, has_tls: bool, proxy: str | None
) -> None:
    """Say where the page is; on this machine, with a link that lets its user in."""
    host, port = listener.getsockname()[:2]
    shown = "localhost" if host == "127.0.0.1" else f"[{host}]" if ":" in host else host
    base = f"{'https' if has_tls else 'http'}://{shown}:{port}"
    out = stderr()
    if is_local:
        name = _local_name()
        secret = parts.link_for(name, role=Role.ADMIN, lifetime_s=_LINK_S)
        out.print(f"Open this link within {_LINK_S / 60:.0f} minutes; it works once:")
        out.print(harmless(f"  {base}/enter?key={secret}"))
        out.print(harmless(f"You review as {name}."))
    else:
        out.print(harmless(f"Listening at {base}"))
        if proxy is not None:
            out.print(harmless(f"Reached through the proxy at {proxy}, which speaks HTTPS."))
        elif not has_tls:
            out.print(
                "Logging in needs HTTPS: put a proxy in front that speaks it (--behind-proxy),"
                " or give --certificate and --key."
            )
    out.print("Ctrl-C stops it.")


def _local_name() -> str:
    """Whoever uses this machine, under a name that the page takes."""
    kept = "".join(c if c.isalnum() or c in "._-" else "_" for c in login_name() or "")
    return kept[:64] or "local"
