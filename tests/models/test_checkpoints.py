"""Model files are written atomically, and read only if valid and of the right kind."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from pipelines.errors import BasslError, BasslWarning, StoreError
from pipelines.models.checkpoints import SCHEMA, SCHEMA_VERSION, read_arrays, read_model_header, save_model
from pipelines.models.opening import open_model
from tests.small_stores import refusal

ARRAYS = {"b.weight": np.arange(6.0, dtype=np.float32).reshape(2, 3), "a.bias": np.array(1.5, np.float16)}
SETTINGS = {"width": 128, "members": [1, 2], "slope": 0.25, "name": "é"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_model(path, ARRAYS, "boundary", SETTINGS)
    return path


def fault(path: Path, kind: str = "boundary") -> str:
    """The one line of a file that is refused; unless it is for its kind, the header alone is refused too."""
    with pytest.raises(StoreError) as caught:
        read_arrays(path, kind)
    message = str(caught.value)
    if kind == "boundary":
        with pytest.raises(StoreError, match=re.escape(str(path))):
            read_model_header(path)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_saved_model_is_loaded_unchanged(model: Path) -> None:
    arrays, settings = read_arrays(model, "boundary")
    assert settings == SETTINGS
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_tensor_views_are_saved_with_their_values(tmp_path: Path) -> None:
    table = torch.arange(12.0).reshape(3, 4)
    save_model(tmp_path / "view", {"columns": table[:, 1:3], "turned": table.T}, "boundary", {})
    arrays, _ = read_arrays(tmp_path / "view", "boundary")
    np.testing.assert_array_equal(arrays["columns"], table[:, 1:3])
    np.testing.assert_array_equal(arrays["turned"], table.T)


def test_the_same_model_is_the_same_file_in_every_process(tmp_path: Path, model: Path) -> None:
    script = (
        "import sys, torch; from pathlib import Path; from pipelines.models.checkpoints import save_model;"
        "save_model(Path(sys.argv[1]), {'a.bias': torch.tensor(1.5, dtype=torch.float16),"
        "'b.weight': torch.arange(6.0).reshape(2, 3)}, 'boundary',"
        "{'name': 'é', 'slope': 0.25, 'members': [1, 2], 'width': 128})"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "again")], check=True, env={**os.environ})
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_else(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = model.read_bytes()

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(BasslError, match="no space left on device") as caught:
        save_model(model, ARRAYS, "boundary", {"other": True})
    assert str(model) in str(caught.value)
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("settings", [{"x": float("nan")}, {"x": object()}])
def test_settings_that_are_not_json_are_refused_before_anything_is_written(tmp_path: Path, settings: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        save_model(tmp_path / "model", ARRAYS, "boundary", settings)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 4, 8, 60, -1])
def test_a_truncated_file_is_refused(model: Path, size: int) -> None:
    model.write_bytes(model.read_bytes()[:size])
    assert "truncated" in fault(model)


def test_files_of_other_formats_are_refused(model: Path) -> None:
    model.write_text("not a model at all, but long enough for a header")
    assert "not a safetensors file" in fault(model)
    torch.save(ARRAYS, model)
    assert "not a safetensors file" in fault(model)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "no such model file" in fault(tmp_path / "none")
    assert "no such model file" in fault(tmp_path)


def test_a_path_that_no_file_can_have_is_refused() -> None:
    refusal(lambda: open_model("a" * 300), "no such run or model")


def test_safetensors_files_from_elsewhere_are_refused(tmp_path: Path) -> None:
    save_file(ARRAYS, tmp_path / "bare")
    assert "not a bassl model" in fault(tmp_path / "bare")
    save_file(ARRAYS, tmp_path / "other", metadata={"format": "pt"})
    assert "not a bassl model" in fault(tmp_path / "other")


def test_another_version_is_refused_and_both_are_named(tmp_path: Path) -> None:
    metadata = {"schema": SCHEMA, "schema_version": "99", "kind": "boundary", "settings": "{}"}
    save_file(ARRAYS, tmp_path / "new", metadata=metadata)
    message = fault(tmp_path / "new")
    assert "version 99" in message
    assert f"version {SCHEMA_VERSION}" in message


def test_another_kind_is_refused_and_both_are_named(model: Path) -> None:
    message = fault(model, kind="crn")
    assert "a fine-tuned model" in message
    assert "'crn'" in message


@pytest.mark.parametrize("settings", ["{", json.dumps([1]), None])
def test_unreadable_settings_are_refused(tmp_path: Path, settings: str | None) -> None:
    metadata = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "kind": "boundary"}
    save_file(ARRAYS, tmp_path / "bad", metadata=metadata if settings is None else {**metadata, "settings": settings})
    assert "settings" in fault(tmp_path / "bad")


def test_the_header_can_be_read_without_the_weights(model: Path) -> None:
    assert read_model_header(model) == ("boundary", SETTINGS)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b'{"a": 1}',
        b'{"a": {"data_offsets": [0]}}',
        b'{"a": {"data_offsets": ["x", "y"]}}',
        b"\xff\xff",
        b"[" * 100_000,
        b'{"__metadata__": {"schema": "bassl.model", "schema_version": "1", "kind": "boundary", "settings": {}}}',
    ],
)
def test_any_invalid_header_gives_a_one_line_error(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(StoreError, match=re.escape(str(path))) as caught:
        read_model_header(path)
    assert "\n" not in str(caught.value)


def test_deeply_nested_settings_give_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    metadata = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "kind": "boundary", "settings": "[" * 100_000}
    save_file(ARRAYS, path, metadata)
    assert "settings cannot be read" in fault(path)


def test_every_damaged_model_is_refused(model: Path) -> None:
    content = model.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 300):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        model.write_bytes(changed)
        with pytest.raises(StoreError, match=str(model)):
            read_arrays(model, "boundary")


def test_a_model_without_a_digest_is_used_with_a_note(model: Path) -> None:
    content = model.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    del header["__metadata__"]["digest"]
    head = json.dumps(header).encode()
    model.write_bytes(len(head).to_bytes(8, "little") + head + content[8 + length :])
    with pytest.warns(BasslWarning, match="has no digest"):
        read_arrays(model, "boundary")
