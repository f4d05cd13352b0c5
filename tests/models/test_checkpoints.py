"""Model files are written atomically, and read only if whole, valid and of the right kind."""

import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from pipelines.errors import StoreError
from pipelines.models.bassl import KIND, PARTS, BasslSettings, BasslWeights, load_bassl_model, save_bassl_model
from pipelines.models.checkpoints import SCHEMA, SCHEMA_VERSION, read_arrays, read_model_header, save_model
from pipelines.models.networks import CRNSettings
from tests.released_layout import crn_tensors
from tests.small_stores import refusal

ARRAYS = {"b.weight": np.arange(6.0, dtype=np.float32).reshape(2, 3), "a.bias": np.array(1.5, np.float16)}
SETTINGS = {"width": 128, "members": [1, 2], "slope": 0.25, "name": "é"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_model(path, ARRAYS, "boundary", SETTINGS)
    return path


def test_weights_and_settings_are_loaded_unchanged(model: Path) -> None:
    arrays, settings = read_arrays(model, "boundary")
    assert settings == SETTINGS
    assert read_model_header(model) == ("boundary", SETTINGS)
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


def test_the_same_model_is_the_same_file(tmp_path: Path, model: Path) -> None:
    """safetensors writes metadata in an order that differs from call to call."""
    weights, settings = (dict(reversed(values.items())) for values in (ARRAYS, SETTINGS))
    for _ in range(10):
        save_model(tmp_path / "again", weights, "boundary", settings)
        assert (tmp_path / "again").read_bytes() == model.read_bytes()


def header_file(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def with_metadata(**metadata: str) -> bytes:
    return save(ARRAYS, {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "kind": "boundary"} | metadata)


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "truncated"),
    "length only": (b"\x00" * 8, "not a safetensors file"),
    "a pickle": (b"PK\x03\x04" + bytes(60), "not a safetensors file"),
    "a number": (header_file(b'{"a": 1}'), "not a safetensors file"),
    "offsets of text": (header_file(b'{"a": {"data_offsets": ["x", "y"]}}'), "not a safetensors file"),
    "deep nesting": (header_file(b"[" * 100_000), "not a safetensors file"),
    "no metadata": (save(ARRAYS), "not a bassl model"),
    "another version": (with_metadata(schema_version="99"), f"of version 99, .* reads version {SCHEMA_VERSION}"),
    "no settings": (with_metadata(), "settings cannot be read"),
    "a list of settings": (with_metadata(settings="[1]"), "settings cannot be read"),
    "nested settings": (with_metadata(settings="[" * 100_000), "settings cannot be read"),
}


@pytest.mark.parametrize(("content", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_is_not_a_model_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    refusal(lambda: read_arrays(path, "boundary"), path)
    assert re.search(words, refusal(lambda: read_model_header(path), path))


def test_another_kind_is_refused_and_both_are_named(model: Path) -> None:
    refusal(lambda: read_arrays(model, "bassl"), "is a fine-tuned model, but a pre-trained model is needed")
    refusal(lambda: read_arrays(model, "crn"), "a fine-tuned model", "'crn'")


def test_every_damaged_model_is_refused(model: Path) -> None:
    content = model.read_bytes()
    for size in (0, 4, 8, 60, len(content) - 1):
        model.write_bytes(content[:size])
        refusal(lambda: read_arrays(model, "boundary"), "truncated")
        refusal(lambda: read_model_header(model), "truncated")
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 300):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        model.write_bytes(changed)
        with pytest.raises(StoreError, match=str(model)):
            read_arrays(model, "boundary")


@pytest.mark.parametrize("weights", [np.array([1, np.nan]), np.array([1j], np.complex64)])
def test_weights_that_are_not_finite_numbers_are_refused(tmp_path: Path, weights: np.ndarray) -> None:
    save_model(tmp_path / "model.safetensors", {"w": weights}, "boundary", {})
    refusal(lambda: read_arrays(tmp_path / "model.safetensors", "boundary"), "its weights w are not finite numbers")


# --- the paper's model ------------------------------------------------------------------------------------------------


CRN = CRNSettings(neighbors=2, input_width=24, width=16, layers=2, heads=8, hidden=40, dropout=0.2)


@pytest.fixture
def weights() -> BasslWeights:
    encoder = {"conv.weight": torch.randn(2, 3), "bn.num_batches_tracked": torch.tensor(7)}
    heads = {"head_pp.weight": torch.randn(2, 16), "head_cgm.bias": torch.randn(2)}
    return BasslWeights(
        BasslSettings("timm:tiny", CRN), encoder, dict(crn_tensors(2)), heads, {"method": "bassl", "epochs": 10}
    )


def test_the_papers_model_is_loaded_unchanged(tmp_path: Path, weights: BasslWeights) -> None:
    save_bassl_model(tmp_path / "run" / "model.safetensors", weights)
    back = load_bassl_model(tmp_path / "run" / "model.safetensors")
    assert back.settings == weights.settings
    assert back.training == {"method": "bassl", "epochs": 10}
    for part in PARTS:
        one, other = getattr(back, part), getattr(weights, part)
        assert one.keys() == other.keys()
        assert all(one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one)


def test_a_header_that_does_not_fit_the_weights_is_refused(tmp_path: Path, weights: BasslWeights) -> None:
    tensors = {f"crn.{name}": tensor for name, tensor in weights.crn.items()}
    good = {"encoder": "resnet50", "crn": asdict(CRN), "training": {}}
    save_model(tmp_path / "good", tensors, KIND, good)
    load_bassl_model(tmp_path / "good")
    for content, change in (
        (tensors, {"encoder": 5}),
        (tensors, {"training": 5}),
        (tensors, {"crn": {}}),
        (tensors, {"crn": {**asdict(CRN), "neighbors": 10**18}}),
        (tensors, {"crn": {**asdict(CRN), "heads": "8"}}),
        ({}, {}),
    ):
        save_model(tmp_path / "bad", content, KIND, {**good, **change})
        refusal(lambda: load_bassl_model(tmp_path / "bad"), tmp_path / "bad", "do not fit each other")
