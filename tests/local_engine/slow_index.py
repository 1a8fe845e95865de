"""A package index on loopback that serves one wheel, and stops half way until it is let go."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class SlowIndex:
    """Serves one wheel.

    Args:
        wheel: the file.
        link: how the index page names it; may hold a token.
    """

    def __init__(self, wheel: Path, link: str = "") -> None:
        self.wheel, self.link = wheel, link or wheel.name
        self.go_on = threading.Event()
        self.started = threading.Semaphore(0)  # one for each download that has begun
        self.broken = threading.Semaphore(0)  # one for each whose reader went away
        self.num_whole = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/simple"

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(index: SlowIndex) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0].endswith(".whl"):
                    self.send_wheel(index.wheel.read_bytes())
                else:
                    page = f'<a href="/files/{index.link}">{index.wheel.name}</a>'.encode()
                    self.send("text/html", len(page))
                    self.wfile.write(page)

            def send(self, kind: str, size: int) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(size))
                self.end_headers()

            def send_wheel(self, content: bytes) -> None:
                self.send("application/zip", len(content))
                half = len(content) // 2
                self.wfile.write(content[:half])
                index.started.release()
                self.connection.settimeout(0.02)
                while not index.go_on.is_set():
                    try:
                        gone = self.connection.recv(1) == b""
                    except TimeoutError:
                        continue
                    except ConnectionError:
                        gone = True
                    if gone:
                        index.broken.release()
                        self.close_connection = True
                        return
                self.connection.settimeout(30)
                self.wfile.write(content[half:])
                index.num_whole += 1

            def log_message(self, *_: object) -> None:
                pass

        return Handler
