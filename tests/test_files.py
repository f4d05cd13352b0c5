"""Atomic writing: a file appears complete under its name or not at all."""

import os
import stat
from pathlib import Path

import pytest

from pipelines.errors import BasslError
from pipelines.files import atomic_file, check_writable, remove_partials, write_atomically


def test_a_file_is_replaced_and_nothing_else_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "file", b"content")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"content"


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BasslError, match=r"file: cannot be written \(no space left on device\)"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "ours", b"")
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain")}
    assert len(modes) == 1


def test_where_no_file_can_be_is_told_in_one_line(tmp_path: Path) -> None:
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
def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BasslError, match="may not be written"):
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


def test_what_a_killed_process_left_is_removed_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "Film [1].h5"
    with atomic_file(path) as partial:
        pass
    partial.touch()  # as a killed process would have left it
    remove_partials(tmp_path / "Film 1.h5")
    assert partial.exists()
    remove_partials(path)
    assert list(tmp_path.iterdir()) == [path]


def test_partial_files_are_removed_by_the_name_of_their_file(tmp_path: Path) -> None:
    names = [".a.h5.abcd1234.partial", ".a.h5.zz_99999.partial"]
    others = [".b.h5.abcd1234.partial", ".a.h5.h5.abcd1234.partial", "a.h5", ".a.h5.abcd1234"]
    for name in names + others:
        (tmp_path / name).touch()
    remove_partials(tmp_path / "a.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
