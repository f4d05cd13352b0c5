"""README, docs, notebook and release: commands run and print what is shown, and all that is made is up to date."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from PIL import Image

import pipelines
from bassl_cli import app
from pipelines.results.replacing import is_corrected
from pipelines.stages.scene_list import load_scenes
from recipes import documentation
from tests.command import Bassl
from tests.running import ENVIRONMENT, HOME, posix

PAGE = documentation.README.read_text(encoding="utf-8")
NOT_RUN = {
    "python3": "sets up an environment; .ci/run does that, by make setup",
    "pip": "installs this checkout; .ci/run does that, by make setup",
}
"""First words of the commands in blocks that are not run here, with the reason."""
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))


def read(name: str) -> str:
    return (HOME / name).read_text(encoding="utf-8")


def commands(page: str) -> list[list[str]]:
    """The command lines in the blocks of a page, without comments."""
    lines = (line for block in documentation.blocks(page, "sh") for line in block.splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def test_every_command_runs_and_prints_what_is_shown(bassl: Bassl, capfd: pytest.CaptureFixture[str]) -> None:
    documentation.make_videos(Path())
    outputs = []
    for words in commands(PAGE):
        if words[0] not in NOT_RUN and words[1] != "review":  # which waits for a person: tests/browser
            run = bassl(*words[1:])
            assert (words[0], run.code) == ("bassl", 0), (words, run.err)
            outputs.append(run.out)
    last_digit = re.compile(r"(?<=0\.\d)\d$", re.MULTILINE)  # of a confidence: it is the machine's
    example = documentation.blocks(PAGE, "")[0]
    assert last_digit.sub("", outputs[0]) == last_digit.sub("", example)
    for inline in re.findall(r"`(bassl [^`]+\.\w+)`", PAGE):
        assert bassl(*inline.split()[1:]).code == 0, inline
    for name in ("movie.scenes.html", "movie.scenes.edl", "movie-scenes", "out/a.scenes.json", "out/b.scenes.json"):
        assert Path(name).exists(), name
    (program,) = documentation.blocks(PAGE, "python")
    capfd.readouterr()
    exec(program, {})
    assert capfd.readouterr().out.startswith("00:00:00.000 ")
    assert Path("movie.edl").exists()


def section(page: str, heading: str) -> str:
    """Return a section of a page."""
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


AGENTS = read("docs/agents.md")
VISION = section(AGENTS, "A local vision model")


def run_examples(page: str, folder: Path, **environment: str) -> list[str]:
    """Run the examples of a page in order, beside the README's videos; return what they print."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shells, outputs = {"sh": ["bash", "-ec"], "python": [sys.executable, "-c"]}, []
    for language, text in re.findall(r"^```(sh|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        run = subprocess.run(
            [*shells[language], text],
            cwd=folder,
            env={**ENVIRONMENT, "PATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, (text, run.stderr)
        outputs.append(run.stdout)
    return outputs


class VisionModel(BaseHTTPRequestHandler):
    """A server with OpenAI's interface, in place of a vision model: it names what it sees "A quiet room", and says that
    scenes end with the even shots of a look."""

    questions: ClassVar[list[tuple[str, int]]] = []  # text and images of each request

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (message,) = request["messages"]
        texts = [part["text"] for part in message["content"] if part["type"] == "text"]
        urls = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
        for url in urls:
            kind, _, data = url.partition(";base64,")
            with Image.open(io.BytesIO(base64.b64decode(data))) as image:
                assert kind == f"data:image/{str(image.format).lower()}"
        self.questions.append((texts[0], len(urls)))
        shots = [int(text.removeprefix("Shot ").removesuffix(":")) for text in texts[1:]]
        text = (
            json.dumps({"ends": [shot for shot in shots if shot % 2 == 0]}) if shots else "A quiet room\nof two words"
        )
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        self.send_response(200 if self.path == "/v1/chat/completions" else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *arguments: object) -> None: ...


@posix
@pytest.mark.slow
def test_a_local_vision_model_names_scenes_and_answers_looks_by_the_recipes(tmp_path: Path) -> None:
    documentation.make_videos(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), VisionModel) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        run_examples(VISION, tmp_path, OPENAI_BASE_URL=address, OPENAI_API_KEY="none")
        server.shutdown()
    result, questions = load_scenes(tmp_path / "named.scenes.json"), VisionModel.questions
    answers = {shot.index: shot.pinned for shot in result.shots if shot.pinned_by == "program"}
    assert len(answers) >= 7
    assert answers == {shot: shot % 2 == 0 for shot in answers}
    assert not is_corrected(result)
    assert {scene.name for scene in result.scenes} - {None} == {"A quiet room"}  # looks changed the other scenes
    looks = [(images, text) for text, images in questions if "JSON" in text]
    assert questions[: -len(looks)] == [(text, 1) for text, _ in questions[: -len(looks)]] != []
    assert all(2 <= images <= 8 for images, _ in looks)


@posix
@pytest.mark.slow
def test_the_examples_for_programs_run_in_order_and_give_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documentation.make_videos(tmp_path)
    (tmp_path / "videos" / "broken.mp4").write_text("no video")
    outputs = run_examples(AGENTS.replace(VISION, ""), tmp_path)
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    (example,) = map(json.loads, documentation.blocks(AGENTS, "json"))
    states = {result["video_id"]: result["status"] for result in results}
    assert states == {"a": "done", "b": "done", "broken": "failed"}
    assert all(result.keys() == example.keys() for result in results)
    assert example in results
    assert len(json.loads((tmp_path / "three.json").read_text())["scenes"]) == 3
    assert [image["scene"] for image in json.loads((tmp_path / "images.json").read_text())] == [0, 1, 2]
    assert any("broken.mp4: not a video" in out and "videos/a.mp4 [2.0]" in out for out in outputs)
    assert (tmp_path / "videos" / "a.edl").read_text() == "0.000\t0.000\t2\n"
    assert [scene.name for scene in load_scenes(tmp_path / "out" / "a.scenes.json")] == ["2 shots"]
    assert outputs[-1].startswith("movie.mp4 ['00:00:00.000', ")
    monkeypatch.chdir(tmp_path)
    in_table = re.findall(r"^\| [^|]* \| `bassl ([^`]+)` \|", AGENTS, re.MULTILINE)
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
    script, makefile = read(".ci/run"), read("Makefile")
    assert all(name in script for name in ("make setup", "make demo"))
    assert all(f"\n{target}: " in makefile for target in re.findall(r"`make ([\w-]+)`", PAGE))


def test_the_types_of_options_equal_the_settings() -> None:
    assert documentation.OPTION_TYPES.read_text(encoding="utf-8") == documentation.option_types(), "run make generated"


def test_the_readme_is_short_and_every_page_is_in_the_contents() -> None:
    assert len(PAGE.splitlines()) <= 160
    contents, site = read("docs/README.md"), read("mkdocs.yml")
    for path in (HOME / "docs").glob("*.md"):
        assert path.name == "README.md" or (f"({path.name})" in contents and f": {path.name}\n" in site), path.name


def test_links_in_the_documentation_exist() -> None:
    for folder in (HOME, HOME / "docs", HOME / "data", HOME / "pipelines" / "models" / "data"):
        for page in folder.glob("*.md"):
            for target in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
                assert (folder / target).exists(), (page, target)


def texts(notebook: str) -> list[str]:
    """Return what each code cell prints and shows, as text."""
    outputs = [one for cell in json.loads(notebook)["cells"] for one in (cell, *cell.get("outputs", ()))]
    return ["".join(one.get("text") or one.get("data", {}).get("text/plain", "")) for one in outputs]


SHIPPED = documentation.NOTEBOOK.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_notebook_runs_and_gives_the_outputs_that_it_is_shipped_with(tmp_path: Path) -> None:
    documentation.make_videos(tmp_path)
    program = "import json; from recipes.documentation import run_notebook as run; print(json.dumps(run()))"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert texts(run.stdout) == texts(SHIPPED)
    for name in ("movie.edl", "movie.scenes.html", "clips", "images", "boundaries.png"):
        assert (tmp_path / name).exists(), name


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {pipelines.__version__}\n" in read("CITATION.cff")
    top = re.search(r"(?m)^## (.*)$", read("CHANGELOG.md"))
    assert top is not None
    assert top[1] in (pipelines.__version__, "Unreleased")


def test_the_workflow_tests_the_python_versions_that_the_readme_names() -> None:
    tested = re.search(r"tested: ([\d., ]+)", PAGE)
    matrix = re.search(r"python: \[(.*)\]", read(".github/workflows/ci.yml"))
    assert tested is not None
    assert matrix is not None
    versions = re.findall(r"3\.\d+", tested[1])
    assert re.findall(r"3\.\d+", matrix[1]) == versions
    prefix = "Programming Language :: Python :: "
    assert [word for word in PROJECT["project"]["classifiers"] if re.match(prefix + r"3\.", word)] == [
        prefix + version for version in versions
    ]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"


def test_every_action_of_a_workflow_is_pinned_to_a_commit() -> None:
    for workflow in (HOME / ".github" / "workflows").glob("*.yml"):
        uses = re.findall(r"uses: *(.*)", workflow.read_text(encoding="utf-8"))
        assert uses
        assert [action for action in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} +# v[\d.]+", action)] == []


def test_the_readme_on_pypi_has_no_link_that_works_only_in_the_repository() -> None:
    text, address = PAGE, PROJECT["project"]["urls"]["Repository"]
    for one in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        assert address.removeprefix("https://github.com/") in one["replacement"]
        text = re.sub(one["pattern"], one["replacement"].replace("$HFPR_VERSION", pipelines.__version__), text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    assert not re.search(r"!\[[^\]]*\]\((?!https://raw\.githubusercontent\.com/)", text)  # images
