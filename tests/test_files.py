"""Atomic writing: a file appears complete under its name or not at all."""

import errno
import fcntl
import io
import multiprocessing
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines import files
from pipelines.errors import BasslError, DatasetError, StoreError
from pipelines.files import (
    MOST_BYTES,
    STDIO,
    atomic_file,
    cache_folder,
    check_output,
    check_regular,
    keep_newest,
    locked,
    new_files,
    read_regular,
    remove_leftovers,
    safe_name,
    write_atomically,
)
from tests.running import leftover, linux
from tests.small_stores import refusal


def test_an_atomic_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BasslError, match=r"file: cannot be written \(no space left on device\)"):
        write_atomically(path, b"new")
    with pytest.raises(KeyError), atomic_file(path):
        raise KeyError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_default_permissions_or_its_own_and_missing_folders_are_created(tmp_path: Path) -> None:
    ours = tmp_path / "a" / "b" / "file"
    write_atomically(ours, b"content")
    ours.with_name("plain").touch()
    assert len({stat.S_IMODE(path.stat().st_mode) for path in ours.parent.iterdir()}) == 1
    ours.chmod(0o600)
    write_atomically(ours, b"other content")
    assert (ours.read_bytes(), stat.S_IMODE(ours.stat().st_mode)) == (b"other content", 0o600)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".", "is a folder"),
        ("file/scenes.json", "cannot create its folder"),
        ("pipe", "is a device"),
        (os.devnull, "is a device"),
        ("x" * 300, "name too long"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    refusal(lambda: check_output(tmp_path / path), f"{tmp_path / path}: ", reason, error=BasslError)


@linux
def test_a_file_system_that_takes_no_files_is_noticed_before_the_work() -> None:
    refusal(lambda: check_output(Path("/proc/x.json")), "/proc/x.json: cannot be written", error=BasslError)


def test_a_full_disk_on_which_only_empty_files_can_be_created_is_noticed_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_bytes", lambda self, content: full() if len(content) >= 4096 else 0)
    words = "file: cannot be written (no space left on device)"
    refusal(lambda: check_output(tmp_path / "file"), words, error=BasslError)
    assert list(tmp_path.iterdir()) == []


def test_checking_whether_a_file_can_be_written_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    before = path.stat()
    check_output(path)
    assert (path.stat(), path.read_bytes(), list(tmp_path.iterdir())) == (before, b"old", [path])


def test_temporary_files_of_killed_processes_are_removed_by_the_name_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "a [1].h5"
    ours, other = leftover(path), leftover(tmp_path / "a 1.h5")
    names = [ours.name, leftover(path).name]
    others = [other.name, ours.name.replace(".h5", ".h5.h5"), "a [1].h5", ours.stem]
    for name in names + others:
        (tmp_path / name).touch()
    remove_leftovers(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Café 映画 \U0001f469\u200d\U0001f680", "Café 映画 \U0001f469\u200d\U0001f680"),
        ('a<b>c:d"e/f\\g|h?i*j', "a_b_c_d_e_f_g_h_i_j"),
        ("../../x", ".._.._x"),
        ("two\nlines\tand\xa0more", "two lines and more"),
        ("\x1b[1;31mred\x07\x00", "[1;31mred"),
        ("mp4.\u202egnp\u2066\u200f\u061c", "mp4.gnp"),
        ("caf\udce9", "caf"),
    ],
)
def test_any_text_becomes_a_name_that_every_system_accepts_and_keeps_what_is_safe(text: str, name: str) -> None:
    assert safe_name(text) == name
    assert safe_name(name) == name


def test_stdin_is_read_up_to_the_largest_size_of_a_label_file(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = io.BytesIO(bytes(MOST_BYTES + 100))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=endless))
    with pytest.raises(DatasetError, match="-: is larger than 16 MB"):
        read_regular(STDIO)
    assert endless.tell() == MOST_BYTES + 1


def test_an_input_is_a_regular_file_of_limited_size_or_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    for name, words in {
        "fifo": "is not a file",
        "loop": "cannot be read (too many levels of symbolic links)",
        "device": "is not a file",
        "folder": "is not a file",
        "gone": "no such file",
        "sparse": "too large for a file of this kind",
    }.items():
        for read in (read_regular, check_regular):
            refusal(lambda read=read, name=name: read(tmp_path / name, kind=StoreError), tmp_path / name, words)
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    refusal(lambda: read_regular(tmp_path / "file", 4), "file: is larger than 0 MB", error=DatasetError)


@pytest.mark.parametrize("name", ["x" * 255, "映" * 85])
def test_file_names_may_have_the_maximum_length(tmp_path: Path, name: str) -> None:
    write_atomically(tmp_path / name, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"new"}


def test_without_file_locks_temporary_files_of_other_processes_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    other = leftover(tmp_path / "file")
    other.write_bytes(b"half")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / "file"]


def _killed(write: Callable[[Path], None], folder: Path) -> None:
    """Run a process that kills itself while it writes."""
    process = multiprocessing.get_context("fork").Process(target=write, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _die_in_a_file(folder: Path) -> None:
    with atomic_file(folder / "file") as partial:
        partial.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_next_write_removes_the_temporary_file_of_a_killed_process_but_not_of_a_running_one(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "file") as partial:
        _killed(_die_in_a_file, tmp_path)
        assert [path.suffix for path in tmp_path.iterdir()] == [".partial"] * 2
        write_atomically(tmp_path / "file", b"other")
        assert sorted(tmp_path.iterdir()) == [partial, tmp_path / "file"]
        partial.write_bytes(b"this")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"this"]


def _write_files(folder: Path, die: bool = False) -> None:
    with new_files(folder, folder, {"1": "", "2": ""}, [], overwrite=True) as (_, partials, _):
        for partial in partials:
            partial.write_text(partial.name)
        assert not [path for path in folder.iterdir() if not path.name.startswith(".")]
        if die:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_group_of_files_appears_when_all_are_complete_and_leaves_nothing_else(tmp_path: Path) -> None:
    _killed(lambda folder: _write_files(folder, die=True), tmp_path)
    _write_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


@pytest.mark.parametrize("write", [lambda folder: write_atomically(folder / "1", b"new"), _write_files])
def test_what_gets_its_final_name_was_flushed_to_disk_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    flushed, flush, rename = set(), os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        flush(descriptor)
        flushed.add(os.fstat(descriptor).st_ino)

    def replace(self: Path, target: Path) -> Path:
        assert self.stat().st_ino in flushed
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write(tmp_path)
    assert (tmp_path / "1").exists()


def test_a_folder_is_locked_only_once_also_by_a_link_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    for _ in range(2):
        with locked(folder), pytest.raises(BlockingIOError), locked(link):
            pass
    assert not list(folder.iterdir())


def test_of_files_that_can_be_made_again_the_newest_stay_within_their_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder("copies")
    assert folder == tmp_path / "bassl" / "copies"
    assert folder.stat().st_mode & 0o777 == 0o700
    for age, name in enumerate(("new", "middle", "old", ".being-written")):
        (folder / name).write_bytes(bytes(10))
        os.utime(folder / name, (1000 - age, 1000 - age))
    for room, left in ((30, 3), (29, 2), (10, 1), (5, 1)):
        keep_newest(folder, room)
        assert sorted(file.name for file in folder.iterdir()) == sorted(
            [".being-written", *["new", "middle", "old"][:left]]
        )


def test_a_user_without_a_home_has_no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("config", "cache"):
        monkeypatch.setattr(f"platformdirs.user_{kind}_dir", lambda *name, **how: "~/.config/bassl")
    assert files.user_folder("config") is None
    assert cache_folder("copies") is None
