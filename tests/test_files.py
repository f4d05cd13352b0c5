"""Atomic writing: a file appears complete under its name or not at all."""

import errno
import fcntl
import multiprocessing
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.errors import BasslError
from pipelines.files import (
    atomic_file,
    check_inputs_kept,
    check_writable,
    files_together,
    locked,
    remove_partials,
    write_atomically,
)


def test_an_atomic_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "file", b"content")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"content"


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BasslError, match=r"file: cannot be written \(no space left on device\)"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_default_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "ours", b"")
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain")}
    assert len(modes) == 1


def test_an_impossible_path_gives_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "scenes.json", "folder cannot be made"),
        (tmp_path / "pipe", "is a device"),
        (Path(os.devnull), "is a device"),
        (tmp_path / ("x" * 300), "name too long"),
    ):
        with pytest.raises(BasslError, match=reason) as caught:
            check_writable(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BasslError, match="folder cannot be written"):
        check_writable(tmp_path / "scenes.json")


def _write_half(path: Path) -> None:
    with atomic_file(path) as partial:
        partial.write_bytes(b"half")
        assert [partial] == list(path.parent.iterdir())
        raise KeyError


def test_a_temporary_file_is_removed_when_its_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        _write_half(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_killed_processes_are_removed_by_file_name(tmp_path: Path) -> None:
    path = tmp_path / "Video [1].h5"
    with atomic_file(path) as partial:
        pass
    partial.touch()  # as a killed process would have left it
    remove_partials(tmp_path / "Video 1.h5")
    assert partial.exists()
    remove_partials(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["x" * 255, "映" * 85])
def test_file_names_may_have_the_maximum_length(tmp_path: Path, name: str) -> None:
    write_atomically(tmp_path / name, b"new")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"new"


def test_without_file_locks_temporary_files_of_other_processes_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    other = tmp_path / ".file.abcd1234.partial"
    other.write_bytes(b"half")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / "file"]


def test_partial_files_are_removed_by_the_name_of_their_file(tmp_path: Path) -> None:
    names = [".a.h5.abcd1234.partial", ".a.h5.zz_99999.partial"]
    others = [".b.h5.abcd1234.partial", ".a.h5.h5.abcd1234.partial", "a.h5", ".a.h5.abcd1234"]
    for name in names + others:
        (tmp_path / name).touch()
    remove_partials(tmp_path / "a.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def _killed(work: Callable[[Path], None], folder: Path) -> None:
    """Let a process do what it ends by killing itself."""
    process = multiprocessing.get_context("fork").Process(target=work, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _die_in_a_file(folder: Path) -> None:
    with atomic_file(folder / "file") as partial:
        partial.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def _die_in_a_folder(folder: Path) -> None:
    with files_together(folder, "pieces") as partial:
        (partial / "1").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def _die_while_moving(folder: Path) -> None:
    replace = Path.replace

    def last(self: Path, target: Path) -> Path:
        replace(self, target)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    Path.replace = last  # type: ignore[method-assign]
    with files_together(folder, "pieces") as partial:
        for name in "123":
            (partial / name).write_text(name)


def test_the_next_write_removes_temporary_files_of_a_killed_one(tmp_path: Path) -> None:
    _killed(_die_in_a_file, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    write_atomically(tmp_path / "file", b"whole")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"whole"]


def test_the_temporary_file_of_a_running_process_stays(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "file") as partial:
        _killed(_die_in_a_file, tmp_path)
        write_atomically(tmp_path / "file", b"other")
        assert partial.exists()
        partial.write_bytes(b"this")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"this"]


def test_a_group_of_files_appears_together(tmp_path: Path) -> None:
    _killed(_die_in_a_folder, tmp_path)
    with files_together(tmp_path, "pieces") as partial:
        (partial / "1").write_text("1")
        (partial / "2").write_text("2")
        assert list(tmp_path.iterdir()) == [partial]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


def test_a_partly_moved_group_of_files_is_completed_by_the_next_process(tmp_path: Path) -> None:
    _killed(_die_while_moving, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir())[1:] == ["1"]
    with files_together(tmp_path, "pieces"):
        assert sorted(path.name for path in tmp_path.iterdir())[1:] == ["1", "2", "3"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]


def test_a_lock_can_be_held_only_once(tmp_path: Path) -> None:
    with locked(tmp_path) as held:
        assert held
        with pytest.raises(BlockingIOError), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_outputs_that_are_checked_against_many_inputs_are_each_looked_at_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, stat_of = [], os.stat
    monkeypatch.setattr(os, "stat", lambda *given, **named: (looks.append(given), stat_of(*given, **named))[1])
    videos, results = ([tmp_path / f"{i}.{ending}" for i in range(50)] for ending in ("mp4", "json"))
    for path in (*videos, *results):
        path.touch()
    looks.clear()
    check_inputs_kept(results, videos)
    assert len(looks) <= 5 * (len(videos) + len(results))
