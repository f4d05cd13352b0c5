"""The server of a page, attacked: who may ask, for what, and with how much; and ranges of the video."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pipelines.errors import BasslError, ChangedError
from pipelines.outputs.server import ReviewServer
from tests.running import linux


class FakeSession:
    """A session that keeps what it is asked."""

    def __init__(self, video: Path | None) -> None:
        self.video, self.version = video, "now"
        self.saved: list[bytes] = []
        self.exported: list[str] = []
        self.problem: Exception | None = None

    def page(self) -> str:
        return "the page"

    def current(self) -> dict[str, Any]:
        return {"version": self.version, "fit": True}

    def check(self, version: str) -> None:
        if self.problem is not None:
            raise self.problem
        if version != self.version:
            raise ChangedError("movie.scenes.json: was changed")

    def save(self, content: bytes, version: str) -> str:
        self.check(version)
        self.saved.append(content)
        return "then"

    def export(self, name: str, version: str) -> dict[str, Any]:
        self.exported.append(name)
        return {"files": [f"movie.{name}"], "warnings": ()}

    def proxy(self) -> tuple[Path | None, float]:
        return None, 0.25


class Asked:
    """A server with a session, and requests to it: with the secret and the headers of its own page, unless others are
    given."""

    def __init__(self, server: ReviewServer, session: FakeSession) -> None:
        self.server, self.session = server, session
        self.host = f"127.0.0.1:{server.port}"
        self.secret = server.address.split("/")[3]

    def __call__(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, secret: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        given = {"Host": self.host, "Origin": f"http://{self.host}", "If-Match": "now"} | (headers or {})
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        connection.putrequest(method, f"/{secret or self.secret}{path}", skip_host=True)
        for name, value in given.items():
            if value:
                connection.putheader(name, value)
        if body is not None and "Content-Length" not in given:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        answer = response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()
        connection.close()
        return answer

    def raw(self, request: str) -> bytes:
        """What the server answers to these bytes: it may close the connection before it has read all."""
        answer = b""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as connection:
            connection.sendall(request.encode())
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        return answer


@contextmanager
def asked(video: Path | None) -> Iterator[Asked]:
    session = FakeSession(video)
    with ReviewServer() as server:
        server.show(session)
        ask = Asked(server, session)
        yield ask
        ask("POST", "/done", b"1")
        server.wait()


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    video = tmp_path_factory.mktemp("served") / "movie.mp4"
    video.write_bytes(bytes(range(256)) * 4)
    with asked(video) as ask:
        yield ask


PATHS = [
    ("GET", "/"),
    ("GET", "/video"),
    ("GET", "/proxy"),
    ("POST", "/proxy"),
    ("PUT", "/result"),
    ("POST", "/export"),
    ("POST", "/done"),
]


def test_the_page_can_be_read_saved_and_exported_from_its_address(ask: Asked) -> None:
    status, headers, body = ask("GET", "/")
    assert (status, body, headers["content-type"]) == (200, b"the page", "text/html; charset=utf-8")
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
    assert json.loads(ask("PUT", "/result", b"{}")[2]) == {"version": "then"}
    assert ask.session.saved == [b"{}"]
    assert json.loads(ask("POST", "/export", b"edl")[2]) == {"files": ["movie.edl"], "warnings": []}
    assert json.loads(ask("POST", "/proxy")[2]) == {"done": 0.25, "ready": False}


def test_nothing_answers_without_the_secret(ask: Asked) -> None:
    saved, wrong = [*ask.session.saved], ask.secret[:-1]
    guesses = [wrong, "x" * len(ask.secret), ask.secret.swapcase(), f"{ask.secret}x", "%e9%ff", "%00"]
    for method, path, secret in [(*each, wrong) for each in PATHS] + [("GET", "/", guess) for guess in guesses]:
        assert ask(method, path, secret=secret)[::2] == (404, b"Not Found"), (path, secret)
    for path in ("", ask.secret, f"{ask.secret}/../movie.mp4", f"{ask.secret}/movie.mp4", f"{ask.secret}//etc/passwd"):
        assert ask.raw(f"GET /{path} HTTP/1.1\r\nHost: {ask.host}\r\n\r\n").startswith(b"HTTP/1.1 404"), path
    assert ask.session.saved == saved


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        *((each, {"Host": "evil.example", "Origin": "http://evil.example"}) for each in PATHS),
        *(
            (("GET", "/"), {"Host": host, "Origin": f"http://{host}"})
            for host in ("evil.example:{port}", "127.0.0.1.evil.example:{port}", "0.0.0.0:{port}", "[::1]", "127.0.0.1")
        ),
        *((each, {"Origin": "http://evil.example"}) for each in PATHS),
        *(
            (("PUT", "/result"), {"Origin": origin})
            for origin in ("null", "", "http://127.0.0.1:1", "https://{host}", "http://{host}.evil")
        ),
    ],
    ids=str,
)
def test_a_page_of_another_site_reaches_nothing_also_by_a_name_that_points_to_this_machine(
    ask: Asked, path: tuple[str, str], headers: dict[str, str]
) -> None:
    before = len(ask.session.saved), len(ask.session.exported)
    names = {name: text.format(host=ask.host, port=ask.server.port) for name, text in headers.items()}
    status, _, body = ask(*path, headers=names)
    assert (status, b"page" in body) == (403, False)
    assert (len(ask.session.saved), len(ask.session.exported)) == before


def test_bodies_are_limited_whether_they_say_their_length_or_not(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 2**22
    monkeypatch.setattr("pipelines.outputs.server.MOST_RESULT_BYTES", most)
    saved = len(ask.session.saved)
    chunks = (b"100000\r\n" + b" " * 2**20 + b"\r\n") * (most // 2**20 + 1) + b"0\r\n\r\n"
    for body, headers in ((b" " * (most + 1), {}), (chunks, {"Transfer-Encoding": "chunked", "Content-Length": ""})):
        with suppress(ConnectionError):  # it answers before it has read all, and closes
            assert ask("PUT", "/result", body, headers)[0] == 413
    assert len(ask.session.saved) == saved
    assert ask("PUT", "/result", b" " * most)[0] == 200, "the limit itself is allowed"


@pytest.mark.parametrize(
    "request_text",
    [
        "\x00" * 5000,
        f"GET {'x' * 100_000} HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n",
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    ],
    ids=["zeros", "long", "two hosts", "no host", "no path", "proxy"],
)
def test_bytes_that_are_no_request_of_the_page_get_an_error_and_the_server_goes_on(
    ask: Asked, request_text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = ask.raw(request_text)
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"403", b"404", b"405"), answer[:80]
    assert ask("GET", "/")[0] == 200
    assert capfd.readouterr() == ("", ""), "nothing reaches the terminal"


@pytest.mark.parametrize(
    ("problem", "status", "text"),
    [
        (BasslError("movie.scenes.json: cannot be written (no space left on device)"), 422, "no space left on device"),
        (OSError(28, "No space left on device"), 500, "no space left on device"),
        (ZeroDivisionError("a bug"), 500, "ZeroDivisionError: a bug"),
        (ChangedError("caf\udce9.scenes.json: was changed"), 409, "caf\udce9.scenes.json: was changed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_why_something_was_not_done_is_answered_in_one_line(
    ask: Asked, problem: Exception, status: int, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ask.session.problem = problem
    answer = ask("PUT", "/result", b"{}")
    ask.session.problem = None
    assert answer[0] == status
    assert text in json.loads(answer[2])["error"]
    assert capfd.readouterr().err == ""


def test_the_address_that_a_browser_is_started_with_works_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(started.append(url)) or True)
    monkeypatch.setenv("BROWSER", "some")
    with asked(None) as ask:
        assert ask.server.open_browser()
        assert ask.secret not in started[0]
        entry = started[0].removeprefix(f"http://{ask.host}/")
        status, headers, _ = ask("GET", "", secret=entry)
        assert (status, headers["location"]) == (303, f"/{ask.secret}/#review")
        assert ask("GET", "", secret=entry)[0] == 404


def test_without_a_display_no_browser_is_started(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", "")
    for name in ("WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail(url))
    assert not ask.server.open_browser()


@linux
def test_only_this_machine_is_listened_to_also_where_the_usual_port_is_taken(ask: Asked) -> None:
    with asked(None) as second:
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        listening = {line[1] for line in lines if line[3] == "0A"}
        for port in (ask.server.port, second.server.port):
            assert [place for place in listening if place.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


def test_after_a_session_the_page_of_the_next_is_waited_for() -> None:
    first, second = FakeSession(None), FakeSession(None)
    second.page, second.version = lambda: "the second page", "of the second"  # type: ignore[method-assign]
    answers: list[bytes] = []
    with ReviewServer() as server:
        ask = Asked(server, first)
        server.show(first)
        assert ask("POST", "/done", b"-1")[0] == 200
        assert server.wait() == -1
        waits = Thread(target=lambda: answers.append(ask("GET", "/")[2]))
        waits.start()
        assert ask("PUT", "/result", b"{}")[0] == 409
        server.show(second)
        waits.join(10)
        assert answers == [b"the second page"]
        assert ask("POST", "/done", b"1")[0] == 409, "the window of the first session does not end the second"
        assert ask("POST", "/done", b"1", {"If-Match": "of the second"})[0] == 200
        assert server.wait() == 1
        last = Thread(target=lambda: answers.append(ask("GET", "/")[2]))
        last.start()
        time.sleep(0.5)  # it waits
    last.join(10)
    assert b"You can close this window" in answers[1], "the next video could not be opened"


def test_two_windows_that_are_done_at_once_end_one_session(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    another = FakeSession(None)
    monkeypatch.setattr(ask.session, "check", lambda version: ask.server.show(another))  # meanwhile another was first
    assert ask("POST", "/done", b"1")[0] == 409
    assert ask("GET", "/")[0] == 200
    ask.server.show(ask.session)


@pytest.mark.parametrize(("name", "kind"), [("p.html", "video/mp4"), ("p.webm", "video/webm")])
def test_a_video_is_no_page_with_scripts_whatever_its_name_and_not_found_once_it_is_deleted(
    tmp_path: Path, name: str, kind: str
) -> None:
    (tmp_path / name).write_text("<script>harm()</script>")
    with asked(tmp_path / name) as ask:
        _, headers, _ = ask("GET", "/video")
        assert (headers["content-type"], headers["content-security-policy"]) == (kind, "sandbox")
        (tmp_path / name).unlink()
        status, _, body = ask("GET", "/video")
        assert (status, json.loads(body)["error"]) == (404, "the video was not found")
