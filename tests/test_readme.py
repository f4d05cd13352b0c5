"""The README and docs/: their commands run, the printed output is shown, links exist, and generated
parts are up to date."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from PIL import Image

from bassl_cli import app
from pipelines.results.replacing import is_corrected
from pipelines.stages.scene_list import load_scenes
from recipes import documentation
from tests.command import Bassl
from tests.running import ENVIRONMENT, posix

HOME = documentation.HOME
PAGE = documentation.README.read_text(encoding="utf-8")
NOT_RUN = {
    "python3": "sets up an environment; .ci/run does that, by make setup",
    "pip": "installs this checkout; .ci/run does that, by make setup",
}
"""First words of the commands in blocks that are not run here, with the reason."""
PAGES = sorted(
    str(path.relative_to(HOME))
    for folder in (HOME, HOME / "docs", HOME / "data", HOME / "pipelines" / "models" / "data")
    for path in folder.glob("*.md")
)
MADE = {"make demo", "make test", "make reproduce-table1"}
"""Commands in the text that are targets of the Makefile: the tests of their commands run what they run."""


def commands(page: str) -> list[list[str]]:
    """The command lines in the blocks of a page, without comments."""
    lines = (line for block in documentation.blocks(page, "sh") for line in block.splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    documentation.make_videos(folder)
    return folder


def test_every_command_runs_and_prints_what_is_shown(
    bassl: Bassl, videos: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(videos)
    to_run = [words for words in commands(PAGE) if words[0] not in NOT_RUN]
    ran = [words for words in to_run if words[1] != "review"]  # which waits for a person: tests/browser
    outputs = []
    for words in ran:
        assert words[0] == "bassl"
        run = bassl(*words[1:])
        assert run.code == 0, (words, run.err)
        outputs.append(run.out)
    example = documentation.blocks(PAGE, "")[0]
    # The last digit of a confidence is the machine's.
    assert re.sub(r"0\.\d\d$", "0.", outputs[0], flags=re.MULTILINE) == re.sub(
        r"0\.\d\d$", "0.", example, flags=re.MULTILINE
    )
    for inline in re.findall(r"`(bassl [^`]+\.\w+)`", PAGE):
        assert bassl(*inline.split()[1:]).code == 0, inline
    for name in ("movie.scenes.html", "movie.scenes.edl", "movie-scenes", "out/a.scenes.json", "out/b.scenes.json"):
        assert Path(name).exists(), name
    (program,) = documentation.blocks(PAGE, "python")
    capfd.readouterr()
    exec(program, {})
    assert capfd.readouterr().out.startswith("00:00:00.000 ")
    assert Path("movie.edl").exists()


@dataclass
class VisionModel:
    """A server with OpenAI's interface, in place of a vision model: it names what it sees "A quiet room", and says that
    scenes end with the even shots of a look."""

    questions: list[tuple[str, int]] = field(default_factory=list)  # text and images of each request

    def answer(self, content: list[dict[str, Any]]) -> str:
        texts = [part["text"] for part in content if part["type"] == "text"]
        urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
        for url in urls:
            kind, _, data = url.partition(";base64,")
            with Image.open(io.BytesIO(base64.b64decode(data))) as image:
                assert kind == f"data:image/{str(image.format).lower()}"
        self.questions.append((texts[0], len(urls)))
        shots = [int(text.removeprefix("Shot ").removesuffix(":")) for text in texts[1:]]
        ends = [shot for shot in shots if shot % 2 == 0]
        return json.dumps({"ends": ends}) if shots else "A quiet room\nof two words"

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve on a free port; yields the address of the interface."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                message = {"role": "assistant", "content": model.answer(request["messages"][0]["content"])}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
                body = json.dumps(answer).encode()
                self.send_response(200 if self.path == "/v1/chat/completions" else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/v1"
            finally:
                server.shutdown()
                thread.join()


def section(page: str, heading: str) -> str:
    """Return a section of a page."""
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@posix
@pytest.mark.slow
def test_a_local_vision_model_names_scenes_and_answers_looks_by_the_recipes(tmp_path: Path) -> None:
    recipes = section((HOME / "docs" / "agents.md").read_text(encoding="utf-8"), "A local vision model")
    documentation.make_videos(tmp_path)
    model, shells = VisionModel(), {"sh": ["bash", "-ec"], "python": [sys.executable, "-c"]}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    named: list[str | None] = []
    with model.serving() as address:
        environment = {**ENVIRONMENT, "PATH": path, "OPENAI_BASE_URL": address, "OPENAI_API_KEY": "none"}
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", recipes, re.MULTILINE | re.DOTALL):
            command = [*shells[language], text]
            run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
            assert run.returncode == 0, run.stderr
            named = named or [scene.name for scene in load_scenes(tmp_path / "named.scenes.json")]
    assert set(named) == {"A quiet room"}
    result = load_scenes(tmp_path / "named.scenes.json")
    answers = {shot.index: shot.pinned for shot in result.shots if shot.pinned_by == "program"}
    assert len(answers) >= 7
    assert answers == {shot: shot % 2 == 0 for shot in answers}
    assert not is_corrected(result)
    assert [images for _, images in model.questions[: len(named)]] == [1] * len(named)
    assert all(2 <= images <= 8 and "JSON" in text for text, images in model.questions[len(named) :])


@posix
@pytest.mark.slow
def test_the_examples_for_programs_run_in_order_and_give_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (HOME / "docs" / "agents.md").read_text(encoding="utf-8")
    page = page.replace(section(page, "A local vision model"), "")  # has a test of its own
    documentation.make_videos(tmp_path)
    (tmp_path / "videos" / "broken.mp4").write_text("no video")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shells = {"sh": ["bash", "-ec"], "python": [sys.executable, "-c"]}
    outputs = []
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if language == "json":
            continue
        run = subprocess.run(
            [*shells[language], text],
            cwd=tmp_path,
            env={**ENVIRONMENT, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == 0, (text, run.stderr)
        outputs.append(run.stdout)
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    (example,) = map(json.loads, documentation.blocks(page, "json"))
    assert {result["video_id"]: result["status"] for result in results} == {
        "a": "done",
        "b": "done",
        "broken": "failed",
    }
    assert all(result.keys() == example.keys() for result in results)
    assert example in results
    assert len(json.loads((tmp_path / "three.json").read_text())["scenes"]) == 3
    assert [image["scene"] for image in json.loads((tmp_path / "images.json").read_text())] == [0, 1, 2]
    assert any("broken.mp4: not a video" in out and "videos/a.mp4 [2.0]" in out for out in outputs)
    assert (tmp_path / "videos" / "a.edl").read_text() == "0.000\t0.000\t2\n"
    assert [scene.name for scene in load_scenes(tmp_path / "out" / "a.scenes.json")] == ["2 shots"]
    assert outputs[-1].startswith("movie.mp4 ['00:00:00.000', ")
    monkeypatch.chdir(tmp_path)
    in_table = re.findall(r"^\| [^|]* \| `bassl ([^`]+)` \|", page, re.MULTILINE)
    assert len(in_table) == 8
    for name, *words in map(str.split, in_table):
        app.load(name).make_context(name, words)


def test_the_options_of_the_table_are_options_of_predict() -> None:
    command = app.load("predict")
    rows = [line for line in PAGE.splitlines() if re.match(r"\| .* \| .*`-", line)]
    options = [code for row in rows for code in re.findall(r"`(-[^`]+)`", row.split(" | ")[1])]
    assert len(options) >= 9
    for option in options:
        command.make_context("predict", ["movie.mp4", *option.split()])


def test_readme_commands_that_are_not_run_here_are_run_by_ci() -> None:
    assert {words[0] for words in commands(PAGE)} == {"bassl", *NOT_RUN}
    assert set(re.findall(r"`(make [\w-]+)`", PAGE)) == MADE
    targets = (HOME / "Makefile").read_text(encoding="utf-8")
    for target in MADE:
        assert f"\n{target.removeprefix('make ')}: " in targets
    script = (HOME / ".ci" / "run").read_text(encoding="utf-8")
    assert "make setup" in script
    assert "make demo" in script


def test_the_types_of_options_equal_the_settings() -> None:
    assert documentation.OPTION_TYPES.read_text(encoding="utf-8") == documentation.option_types(), (
        "run `make generated`"
    )


def test_the_readme_is_short_and_every_page_is_in_the_contents() -> None:
    assert len(PAGE.splitlines()) <= 160
    contents = (HOME / "docs" / "README.md").read_text(encoding="utf-8")
    site = (HOME / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (HOME / "docs").glob("*.md"):
        assert path.name == "README.md" or (f"({path.name})" in contents and f": {path.name}\n" in site), path.name


@pytest.mark.parametrize("page", PAGES)
def test_links_in_the_documentation_exist(page: str) -> None:
    text = (HOME / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", text):
        assert (HOME / page).parent.joinpath(target).exists(), target


def test_the_readme_is_left_as_it_is_where_its_example_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise SystemExit(2)

    monkeypatch.setattr(documentation, "README", tmp_path / "README.md")
    monkeypatch.setattr(documentation, "OPTION_TYPES", tmp_path / "option_types.pyi")
    monkeypatch.setattr(documentation, "run_notebook", dict)
    monkeypatch.setattr(documentation, "make_videos", lambda folder: None)
    monkeypatch.setattr(documentation.app, "main", fails)
    (tmp_path / "README.md").write_text(PAGE, encoding="utf-8")
    with pytest.raises(SystemExit):
        documentation.main()
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == PAGE
