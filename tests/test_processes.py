"""Child processes: they report, never outlive their parent, and the parent learns how they ended."""

import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipelines import errors
from pipelines.processes import Child, Send, free_memory
from tests.running import alive, soon


def answer(task: dict[str, Any], send: Send) -> None:
    send("first", task)
    send("second", 2, [memoryview(b"ab"), memoryview(b"cde")])
    send("stdin", os.read(0, 10))  # the child waits there for the end of its parent


def chatter(task: dict[str, Any], send: Send) -> None:
    print("from Python")
    sys.stdout.flush()
    os.write(1, b"from C\n")
    send("after")


def fail(task: dict[str, Any], send: Send) -> None:
    raise getattr(errors, task["kind"])(task["text"])


def stumble(task: dict[str, Any], send: Send) -> None:
    raise ZeroDivisionError("a bug")


def crash(task: dict[str, Any], send: Send) -> None:
    send("before")
    os.kill(os.getpid(), signal.SIGSEGV)


def die_in_a_message(task: dict[str, Any], send: Send) -> None:
    # A message that promises more bytes than it sends, to the pipe that messages go to, whichever it is.
    whole = pickle.dumps(("shot", None, 100)) + b"x" * 50
    for descriptor in range(3, 20):
        with suppress(OSError):
            os.write(descriptor, whole[: task["cut"]])
    os._exit(0)


def wait_for_ever(task: dict[str, Any], send: Send) -> None:
    send("ready", {"pid": os.getpid()})
    time.sleep(600)


def send_for_ever(task: dict[str, Any], send: Send) -> None:
    while True:
        send("more", {"pid": os.getpid()}, [memoryview(bytes(10_000))])


def where_from(task: dict[str, Any], send: Send) -> None:
    send("file", {"file": errors.__file__, "path": sys.path})


def messages(child: Child) -> list[tuple[str, dict[str, Any], bytes]]:
    return list(iter(child.receive, None))


def test_a_child_process_gets_its_task_sends_messages_with_raw_bytes_and_prints_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "always::ResourceWarning")
    task = {"name": "täsk", "path": Path("\udce9"), "shots": (1, None)}
    child = Child(answer, task)
    assert messages(child) == [("first", task, b""), ("second", 2, b"abcde"), ("stdin", b"", b"")]
    assert child.process.wait() == 0
    child.kill()
    assert capfd.readouterr() == ("", "")


def test_prints_of_libraries_do_not_corrupt_the_messages(capfd: pytest.CaptureFixture[str]) -> None:
    assert messages(Child(chatter, {})) == [("after", None, b"")]
    out, err = capfd.readouterr()
    assert out == ""
    assert "from Python" in err
    assert "from C" in err


BUG = r"^a\.mp4: cannot be read \(unexpected ZeroDivisionError in test_processes.py, line .*bug\)$"
ABSENT = r"ModuleNotFoundError.*No module named 'tests.no_such_module'"


@pytest.mark.parametrize(
    ("work", "kind", "words"),
    [
        *((fail, f"{name}Error", r"^video\.mp4: is empty$") for name in ("Bassl", "Store")),
        (stumble, "VideoError", BUG),
        ("tests.no_such_module:work", "VideoError", ABSENT),
    ],
)
def test_an_error_of_the_child_is_raised_with_its_type_and_a_bug_as_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], work: Any, kind: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    child = Child(work, {"kind": kind, "text": "video.mp4: is empty"})
    with pytest.raises(errors.BasslError, match=words) as caught:
        list(child.messages_on(Path("a.mp4")))
    assert type(caught.value) is getattr(errors, kind)
    child.kill()
    assert capfd.readouterr().err == ""
    assert not list(tmp_path.iterdir())


def test_a_crash_of_the_child_ends_the_messages_and_is_named() -> None:
    child = Child(crash, {})
    assert messages(child) == [("before", None, b"")]
    assert child.process.wait() == -signal.SIGSEGV
    child.kill()


@pytest.mark.parametrize("cut", [2, 20])
def test_a_truncated_message_is_dropped(cut: int) -> None:
    child = Child(die_in_a_message, {"cut": cut})
    assert child.receive() is None
    child.kill()


def test_a_child_process_is_out_of_reach_of_ctrl_c_and_can_be_killed_twice() -> None:
    child = Child(send_for_ever, {})
    assert child.receive() is not None
    assert os.getpgid(child.process.pid) != os.getpgid(0)
    child.kill()
    assert not alive(child.process.pid)
    child.kill()


@pytest.mark.parametrize("work", ["wait_for_ever", "send_for_ever"])
def test_a_child_process_ends_when_its_parent_is_killed(work: str) -> None:
    program = (
        "import time; from pipelines.processes import Child; import tests.test_processes as t\n"
        f"child = Child(t.{work}, {{}}); print(child.receive()[1]['pid'], flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[1]
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    assert soon(lambda: not alive(pid))
    assert parent.communicate()[1] == b""  # nothing on the terminal that it shared with its parent


def test_a_child_process_finds_modules_as_the_program_does_but_not_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pipelines", "json"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, "", "/added"])
    (message,) = messages(Child(where_from, {}))
    assert message[1]["file"] == errors.__file__
    assert "/added" in message[1]["path"]
    assert "" not in message[1]["path"]


V2 = {"memory.max": "6000000", "memory.current": "5000000", "memory.stat": "anon 1\ninactive_file 3000000\n"}
NO_LIMIT = V2 | {"memory.max": "max\n"}


@pytest.mark.parametrize(
    ("groups", "own", "free"),
    [
        ({}, "", 8192000),
        ({"": V2}, "0::/\n", 4000000),
        ({"": NO_LIMIT}, "0::/\n", 8192000),
        ({"job": V2, "job/step": NO_LIMIT}, "0::/job/step\n", 4000000),  # the limit of the group around it
        ({"": V2}, "0::/docker/of-the-host\n", 4000000),  # a path that the container does not see
        ({"": V2 | {"memory.current": "9900000"}}, "0::/\n", 0),
    ],
)
def test_free_memory_is_what_the_machine_and_the_limits_of_a_container_leave(
    tmp_path: Path, groups: dict[str, dict[str, str]], own: str, free: int
) -> None:
    files = {"proc/meminfo": "MemTotal:  16000 kB\nMemAvailable:    8000 kB\n", "proc/self/cgroup": own}
    files |= {f"sys/fs/cgroup/{group}/{name}": text for group, of in groups.items() for name, text in of.items()}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_memory(tmp_path) == free
    assert (free_memory(tmp_path / "empty") or 0) > 0  # what another system tells
