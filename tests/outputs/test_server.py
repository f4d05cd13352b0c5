"""The server of a page, attacked: who may ask, for what, and with how much; and ranges of the video."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pipelines.errors import BasslError, ChangedError
from pipelines.outputs.server import ReviewServer


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

    def raw(self, request: bytes) -> bytes:
        """What the server answers to these bytes."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
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


@pytest.mark.parametrize(("method", "path"), [*PATHS, ("POST", "/done")])
def test_nothing_answers_without_the_secret(ask: Asked, method: str, path: str) -> None:
    saved = [*ask.session.saved]
    for secret in (
        "x",
        "x" * len(ask.secret),
        ask.secret[:-1],
        ask.secret.swapcase(),
        f"{ask.secret}x",
        "%e9%ff",
        "%00",
    ):
        status, _, body = ask(method, path, b"{}" if method != "GET" else None, secret=secret)
        assert (status, body) == (404, b"Not Found"), secret
    assert ask.raw(f"GET / HTTP/1.1\r\nHost: {ask.host}\r\n\r\n".encode()).startswith(b"HTTP/1.1 404")
    assert ask.raw(f"GET /{ask.secret} HTTP/1.1\r\nHost: {ask.host}\r\n\r\n".encode()).startswith(b"HTTP/1.1 404")
    assert ask.session.saved == saved


@pytest.mark.parametrize(("method", "path"), [*PATHS, ("POST", "/done")])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "0.0.0.0:{port}",
        "[::1]",
        "",
        "127.0.0.1",
    ],
)
def test_a_name_of_another_site_that_points_to_this_machine_reaches_nothing(
    ask: Asked, method: str, path: str, host: str
) -> None:
    name = host.format(port=ask.server.port)
    body = b"{}" if method != "GET" else None
    try:
        status, _, answer = ask(method, path, body, {"Host": name, "Origin": f"http://{name}"})
    except ConnectionError:  # without a host it answers before it has read all, and closes
        return
    assert status in (400, 403)
    assert b"page" not in answer


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://127.0.0.1:1",
        "https://{host}",
        "http://{host}.evil",
        "http://localhost:{port}",
    ],
)
def test_a_page_of_another_origin_can_change_nothing(ask: Asked, origin: str) -> None:
    given = {"Origin": origin.format(host=ask.host, port=ask.server.port)}
    saved, exported = len(ask.session.saved), len(ask.session.exported)
    for method, path in [*PATHS, ("POST", "/done")]:
        if method == "GET" and not origin:  # a page is opened without one
            continue
        assert ask(method, path, b"{}" if method != "GET" else None, given)[0] == 403, path
    assert (len(ask.session.saved), len(ask.session.exported)) == (saved, exported)


@pytest.mark.parametrize(
    "path",
    [
        "/../movie.mp4", "/video/../../etc/passwd", "/%2e%2e/movie.mp4", "//etc/passwd", "/etc/passwd", "/movie.mp4",
        "/video/", "/video%00", "/result", "/done", "/page", "/.", "/%2fetc%2fpasswd", "/export?to=../x", "/\\video",
    ],
)  # fmt: skip
def test_there_are_no_other_paths(ask: Asked, path: str) -> None:
    assert ask("GET", path)[0] in (404, 405)


def test_bodies_are_limited_whatever_their_length_says(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 2**22
    monkeypatch.setattr("pipelines.outputs.server.MOST_RESULT_BYTES", most)
    saved = len(ask.session.saved)
    head = f"PUT /{ask.secret}/result HTTP/1.1\r\nHost: {ask.host}\r\nOrigin: http://{ask.host}\r\n"
    too_long = b"Transfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b" " * 2**20 + b"\r\n") * (most // 2**20 + 1)
    try:
        answer = ask.raw(head.encode() + too_long + b"0\r\n\r\n")
    except OSError:  # it answers before it has read all, and closes
        answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
    answer = ask.raw(head.encode() + f"Content-Length: {most + 1}\r\n\r\n".encode() + b"{")
    assert not answer.startswith(b"HTTP/1.1 200")
    assert len(ask.session.saved) == saved
    assert ask("PUT", "/result", b" " * most)[0] == 200, "the limit itself is allowed"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00" * 5000,
        b"GET " + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_of_the_page_get_an_error_and_the_server_goes_on(
    ask: Asked, request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        answer = ask.raw(request_bytes)
    except OSError:
        answer = b""
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"403", b"404", b"405", b"431", b"501"), answer[:80]
    assert ask("GET", "/")[0] == 200
    assert capfd.readouterr() == ("", ""), "nothing reaches the terminal"


def test_connections_that_send_nothing_do_not_keep_others_out(ask: Asked) -> None:
    silent = [socket.create_connection(("127.0.0.1", ask.server.port)) for _ in range(200)]
    assert ask("GET", "/")[0] == 200
    for connection in silent:
        connection.close()


def test_parts_of_the_video_are_served(ask: Asked) -> None:
    whole = bytes(range(256)) * 4
    assert ask("GET", "/video")[::2] == (200, whole)
    status, headers, body = ask("GET", "/video", headers={"Range": "bytes=10-19"})
    assert (status, body, headers["content-range"]) == (206, whole[10:20], "bytes 10-19/1024")
    assert ask("GET", "/video", headers={"Range": "bytes=1000-"})[2] == whole[1000:]
    assert ask("GET", "/video", headers={"Range": "bytes=-5"})[2] == whole[-5:]
    assert ask("GET", "/video", headers={"Range": "bytes=2000-3000"})[0] == 416
    assert ask("HEAD", "/video")[::2] == (200, b"")


def test_a_request_of_a_hundred_thousand_ranges_is_no_work(ask: Asked) -> None:
    before = time.process_time()
    for ranges in (",".join(f"{i}-{i}" for i in range(5000)), "0-," * 5000 + "0-", "-" * 9000, "1-0"):
        assert ask("GET", "/video", headers={"Range": f"bytes={ranges}"})[0] in (200, 206, 400, 416)
    assert time.process_time() - before < 20


@pytest.mark.parametrize(
    ("problem", "status", "text"),
    [
        (BasslError("movie.scenes.json: cannot be written (no space left on device)"), 422, "no space left on device"),
        (OSError(28, "No space left on device"), 500, "no space left on device"),
        (ZeroDivisionError("a bug"), 500, "ZeroDivisionError: a bug"),
    ],
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


def test_a_file_that_changed_is_not_replaced_and_its_version_is_told(ask: Asked) -> None:
    status, _, body = ask("PUT", "/result", b"{}", {"If-Match": "before"})
    assert (status, json.loads(body)) == (
        409,
        {"error": "movie.scenes.json: was changed", "version": "now", "fit": True},
    )
    assert ask("PUT", "/result", b"{}", {"If-Match": ""})[0] == 409


def test_the_address_that_a_browser_is_started_with_works_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(started.append(url)) or True)
    monkeypatch.setenv("BROWSER", "some")
    with asked(None) as ask:
        assert ask.server.open_browser()
        assert ask.secret not in started[0]
        path = started[0].removeprefix(f"http://{ask.host}/")
        status, headers, _ = ask("GET", "", secret=path)
        assert (status, headers["location"]) == (303, f"/{ask.secret}/#review")
        assert ask("GET", "", secret=path)[0] == 404
        assert ask("GET", "/video")[0] == 404, "there is no video"


@pytest.mark.parametrize("variables", [{}, {"DISPLAY": ""}])
def test_without_a_display_no_browser_is_started(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail(url))
    with asked(None) as ask:
        assert not ask.server.open_browser()


def test_only_this_machine_is_listened_to_and_the_usual_port_comes_first(tmp_path: Path) -> None:
    with asked(None) as first, asked(None) as second:
        assert {first.host.split(":")[0], second.host.split(":")[0]} == {"127.0.0.1"}
        assert first.server.port != second.server.port
        if os.path.exists("/proc/net/tcp"):  # noqa: PTH110
            ports = {first.server.port, second.server.port}
            lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            listening = {line[1] for line in lines if line[3] == "0A"}
            assert {f"0100007F:{port:04X}" for port in ports} <= listening
            assert not {f"00000000:{port:04X}" for port in ports} & listening


def test_after_a_session_the_page_of_the_next_is_waited_for(tmp_path: Path) -> None:
    first, second = FakeSession(None), FakeSession(None)
    second.page, second.version = lambda: "the second page", "of the second"  # type: ignore[method-assign]
    with ReviewServer() as server:
        ask = Asked(server, first)
        server.show(first)
        assert ask("POST", "/done", b"-1")[0] == 200
        assert server.wait() == -1
        answers: list[bytes] = []
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
    second = FakeSession(None)
    monkeypatch.setattr(
        ask.session, "check", lambda version: ask.server.show(second)
    )  # meanwhile another one was first
    assert ask("POST", "/done", b"1")[0] == 409
    assert ask.server._session is second
    ask.server.show(ask.session)


def test_a_request_without_a_path_and_a_name_that_is_not_utf_8_are_no_errors_of_the_server(ask: Asked) -> None:
    request = f"GET * HTTP/1.1\r\nHost: {ask.host}\r\nConnection: close\r\n\r\n"
    assert ask.raw(request.encode()).startswith(b"HTTP/1.1 404")
    ask.session.problem = ChangedError("caf\udce9.scenes.json: was changed")
    status, _, body = ask("PUT", "/result", b"{}")
    ask.session.problem = None
    assert (status, json.loads(body)["error"]) == (409, "caf\udce9.scenes.json: was changed")


@pytest.mark.parametrize(("name", "kind"), [("p.html", "video/mp4"), ("p.svg", "video/mp4"), ("p.webm", "video/webm")])
def test_whatever_its_name_a_video_is_not_a_page_with_scripts(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_text("<script>harm()</script>")
    with asked(tmp_path / name) as ask:
        _, headers, _ = ask("GET", "/video")
    assert (headers["content-type"], headers["content-security-policy"]) == (kind, "sandbox")
