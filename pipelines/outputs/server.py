"""Serves the page of a result to the browser of the user who started it.

Only this machine can connect, the address contains a secret, and requests must name this address in ``Host`` and, if
they change something, in ``Origin``: a page of another site can neither guess the address nor reach it by a name of its
own that points to this machine. Nothing is served but the page, its video and a copy of the video that browsers play.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import webbrowser
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Protocol, Self

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from pipelines.errors import BasslError, ChangedError, first_line
from pipelines.files import MOST_RESULT_BYTES, os_reason

_LOOPBACK = "127.0.0.1"
_HEADERS = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")]
_PLAIN_PAGE = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>bassl</title><p>'


class Session(Protocol):
    """What a page is made of, and what it asks for. Methods raise BasslError, one line."""

    video: Path | None

    def check(self, version: str) -> None:
        """Check that the result has this version now. Raises ChangedError."""

    def current(self) -> dict[str, Any]:
        """Return the ``version`` of the result as it is now, and whether changes made on the page ``fit`` it."""

    def page(self) -> str:
        """Return the page of the result as it is now."""

    def save(self, content: bytes, version: str) -> str:
        """Write a ``scenes.json``, and return its version. Raises ChangedError if there is not ``version`` now."""

    def export(self, name: str, version: str) -> dict[str, Any]:
        """Write the result in a format, and return ``files`` and ``warnings``. Raises ChangedError as `save`."""

    def proxy(self) -> tuple[Path | None, float]:
        """Return the copy of the video that browsers play, or None and the share that is done; make it if needed."""


class ReviewServer:
    """HTTP server for one session after the other; its context ends it. ``address`` is the page's URL."""

    def __init__(self) -> None:
        self._secret, self._entry = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self._session: Session | None = None
        self._step = 1
        self._changed = Condition()
        routes = [
            Route("/", self._page),
            Route("/video", self._video),
            Route("/proxy", self._video),
            Route("/proxy", self._make_proxy, methods=["POST"]),
            Route("/result", self._save, methods=["PUT"]),
            Route("/export", self._export, methods=["POST"]),
            Route("/done", self._done, methods=["POST"]),
        ]
        page = Mount(f"/{self._secret}", Router(routes, redirect_slashes=False))
        self._router = Router([page, Route("/{entry}", self._enter)], redirect_slashes=False)

    def __enter__(self) -> Self:
        self._socket = _listen()
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://{_LOOPBACK}:{self.port}/{self._secret}/"
        self._server = uvicorn.Server(
            uvicorn.Config(
                self, http="h11", ws="none", lifespan="off", log_level="critical", log_config=None,
                headers=_HEADERS, proxy_headers=False, server_header=False, timeout_graceful_shutdown=1,
            )
        )  # fmt: skip
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._socket.close()

    def show(self, session: Session) -> None:
        """Serve a session from now on."""
        with self._changed:
            self._session = session
            self._changed.notify_all()

    def wait(self) -> int:
        """Wait until the page reports that its session is done. Returns how many sessions to go on: 1, or -1 back."""
        with self._changed:
            while self._session is not None:
                self._changed.wait(0.5)  # Windows does not interrupt a longer wait by Ctrl-C
        return self._step

    def open_browser(self) -> bool:
        """Open the page in the browser; return whether one was started. Other users see a program's arguments, so the
        browser gets an address that works once. Without a display no browser is started, except one that the
        environment variable ``BROWSER`` names: it could be a browser in the terminal."""
        names = [os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")]
        if sys.platform not in ("win32", "darwin") and not any(names):
            return False
        address, opened = f"http://{_LOOPBACK}:{self.port}/{self._entry}", [True]
        # Some browsers return only when they are closed.
        starting = Thread(target=lambda: opened.append(webbrowser.open(address)), daemon=True)
        starting.start()
        starting.join(2)
        return opened[-1]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = Request(scope).headers
            host, origin = headers.get("host", ""), headers.get("origin")
            is_own_host = host.rpartition(":")[0] in (_LOOPBACK, "localhost")  # ssh may forward another port
            is_own_origin = origin == f"http://{host}" or (origin is None and scope["method"] in ("GET", "HEAD"))
            if not (is_own_host and is_own_origin):
                raise HTTPException(403)
            if not scope["path"].startswith("/"):  # such as OPTIONS *
                raise HTTPException(404)
            await self._router(scope, receive, send)
        except Exception as error:
            await self._failure(error)(scope, receive, send)

    def _failure(self, error: Exception) -> Response:
        """Return the answer to a request that raised an error: one line, and for a result that changed its version."""
        if isinstance(error, HTTPException):
            return _json({"error": error.detail}, error.status_code)
        if isinstance(error, ChangedError):
            return _json({"error": str(error), **self._current().current()}, 409)
        if isinstance(error, BasslError):
            return _json({"error": str(error)}, 422)
        reason = os_reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {first_line(error)}"
        return _json({"error": f"bassl failed ({reason})"}, 500)

    async def _enter(self, request: Request) -> Response:  # by the address that works once
        if not secrets.compare_digest(request.path_params["entry"].encode(), self._entry.encode()):
            raise HTTPException(404)
        self._entry = secrets.token_urlsafe(24)
        return RedirectResponse(f"/{self._secret}/#review", 303)

    def _current(self) -> Session:
        if self._session is None:
            raise HTTPException(409, "the review of this video is done")
        return self._session

    def _page(self, request: Request) -> Response:
        with self._changed:  # while the next session is prepared; browsers do not wait for minutes
            self._changed.wait_for(lambda: self._session is not None or self._server.should_exit, 5)
            session = self._session
        if session is not None:
            return HTMLResponse(session.page())
        if self._server.should_exit:
            return HTMLResponse(_PLAIN_PAGE + "No video is left. You can close this window.", 410)
        # A Refresh header does nothing if the address ends with #review.
        script = "<script>setTimeout(() => location.reload(), 500)</script>"
        return HTMLResponse(f"{_PLAIN_PAGE}Opening the video …{script}", 503)

    def _video(self, request: Request) -> Response:
        session = self._current()
        path = session.video if request.url.path.endswith("/video") else session.proxy()[0]
        if path is None or not path.is_file():
            raise HTTPException(404, "the video was not found")
        kind = guess_type(path.name)[0] or ""
        # A file of another kind, such as p.html, is no page of this address.
        kind = kind if kind.startswith(("video/", "audio/")) else "video/mp4"
        return FileResponse(path, media_type=kind, headers={"content-security-policy": "sandbox"})

    def _make_proxy(self, request: Request) -> Response:
        path, done = self._current().proxy()
        return _json({"done": done, "ready": path is not None})

    async def _save(self, request: Request) -> Response:
        content, session = await _body(request), self._current()
        version = await run_in_threadpool(session.save, content, request.headers.get("if-match", ""))
        return _json({"version": version})

    async def _export(self, request: Request) -> Response:
        name, session = (await _body(request)).decode(errors="replace"), self._current()
        return _json(await run_in_threadpool(session.export, name, request.headers.get("if-match", "")))

    async def _done(self, request: Request) -> Response:
        step, session = await _body(request), self._current()
        await run_in_threadpool(session.check, request.headers.get("if-match", ""))  # not the page of another session
        with self._changed:
            if self._session is not session:  # another window was first
                raise HTTPException(409, "the review of this video is done")
            self._session, self._step = None, -1 if step == b"-1" else 1
            self._changed.notify_all()
        return _json({})


def _json(content: Any, status: int = 200) -> Response:
    """Return a response in ASCII, also for names of files that are not UTF-8."""
    return Response(json.dumps(content), status, media_type="application/json")


async def _body(request: Request) -> bytes:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_RESULT_BYTES:
            raise HTTPException(413, f"more than {MOST_RESULT_BYTES // 2**20} MB")
    return bytes(content)


def _listen() -> socket.socket:
    """Bind a port that only this machine reaches: the user's usual one if it is free, as browsers store by address."""
    usual = 20_000 + int.from_bytes(sha256(os.path.expanduser("~").encode(errors="replace")).digest()[:4]) % 12_000  # noqa: PTH111
    for port in (usual, 0):
        try:
            return socket.create_server((_LOOPBACK, port))
        except OSError as error:
            reason = os_reason(error)
    raise BasslError(f"{_LOOPBACK}: no port can be opened ({reason})")
