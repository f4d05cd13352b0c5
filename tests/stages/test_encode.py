"""Encoding an index: correct features, computed once, resumable, never features of other shots or encoders."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from numpy.typing import NDArray
from PIL import Image

from pipelines.errors import BasslError, SomeFailedError
from pipelines.models.encoders.shot_encoder import ShotEncoder, hue_histogram
from pipelines.options import with_options
from pipelines.stages import encode as encoding
from pipelines.stages.build_index import build_index
from pipelines.stages.encode import encode_shots
from pipelines.stages.extract_keyframes import extract_keyframes
from pipelines.stages.models import import_checkpoint
from pipelines.stages.settings import EncodeSettings
from pipelines.stores.features import (
    feature_file,
    features_of,
    find_features,
    write_features,
)
from pipelines.stores.index import read_index
from pipelines.video.images import from_jpeg, resize_to_square
from tests.dask_cluster import Cluster
from tests.datasets.movienet_files import put_movienet, put_shots
from tests.released_layout import released_state
from tests.running import leftover
from tests.small_stores import features_in, jpeg, put_indexed_stores, put_store, refusal

LENGTHS = {"a": 7, "b": 1, "c": 4}
"""Shots of the videos; seeds of their pictures are 0, 1, 2."""


class MeanColor(ShotEncoder):
    """An encoder with known output: the mean of each channel."""

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return ((images - np.array(self.mean)) / np.array(self.std)).mean(axis=(1, 2)).astype(np.float32)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> ShotEncoder:
    """Replaces every encoder."""
    black, one = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    made = MeanColor(name="mean", id="mean-0123456789ab", width=3, size=8, mean=black, std=one, keyframes=3)
    monkeypatch.setattr(
        encoding,
        "load_encoder",
        lambda source, device, keyframes, preparation, options, precision: replace(made, keyframes=keyframes),
    )
    return made


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return put_indexed_stores(tmp_path, LENGTHS)


def color(*shot: int) -> np.ndarray:
    """What the encoder makes of the keyframes of ``jpeg(seed, shot, k)``."""
    prepared = [resize_to_square(from_jpeg(jpeg(*shot, k)), 8) for k in range(3)]
    return np.mean([picture.reshape(-1, 3).mean(axis=0) for picture in prepared], axis=0)


def settings_of(index: Path, **changes: Any) -> EncodeSettings:
    return with_options(
        with_options(EncodeSettings, index=index, output=index.parent / "features", device="cpu"), **changes
    )


def rows_of(index: Path, store: Path) -> np.ndarray:
    """The features (T, D_e) of a store in the rows of an index."""
    opened = read_index(index)
    return features_of(opened, [store]).features[np.arange(len(opened.label))]


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


def shots_encoded(settings: EncodeSettings) -> int:
    """Number of shots that are encoded to complete the store."""
    told: list[float] = []
    encode_shots(settings, lambda doing, done, total: told.append(done))
    return int(told[-1]) if told else 0


# What is in a store


def test_the_features_of_a_shot_are_the_mean_over_its_keyframes_and_its_color_is_of_the_middle_one(
    index: Path, encoder: ShotEncoder
) -> None:
    store = encode_shots(settings_of(index))
    assert store == index.parent / "features" / "mean-0123456789ab"
    stored = features_of(read_index(index), [store])
    assert (stored.encoder, stored.features.dtype) == (encoder.id, np.float32)
    shots = [(video, shot) for video, length in enumerate(LENGTHS.values()) for shot in range(length)]
    everything = np.arange(len(shots))
    np.testing.assert_allclose(stored.features[everything], [color(*shot) for shot in shots], rtol=1e-5)
    assert stored.color is not None
    hues = [hue_histogram(from_jpeg(jpeg(*shot, 1))) for shot in shots]
    np.testing.assert_array_equal(stored.color[everything], hues)


def test_an_imported_checkpoint_gives_the_features_of_the_releases_own_pipeline(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    network = torchvision.models.resnet50()
    network.fc = torch.nn.Identity()
    torch.save({"state_dict": released_state(encoder=network.state_dict(), D_e=2048)}, tmp_path / "theirs.ckpt")
    import_checkpoint(tmp_path / "theirs.ckpt", tmp_path / "run" / "model.safetensors")
    folder = tmp_path / "movienet" / "240P_frames" / "tt01"
    folder.mkdir(parents=True)
    tensors = []
    for shot in range(3):
        path = folder / f"shot_{shot:04d}_img_0.jpg"
        path.write_bytes(jpeg(shot, 0, width=427, height=240))
        # torchvision's Resize(256, BICUBIC), CenterCrop(224), ToTensor and Normalize, with Pillow.
        image = Image.open(path).convert("RGB").resize((int(256 * 427 / 240), 256), Image.Resampling.BICUBIC)
        left = round((image.width - 224) / 2)
        pixels = np.asarray(image.crop((left, 16, left + 224, 240)), np.float32) / 255
        normal = (pixels - [0.485, 0.456, 0.406]) / np.array([0.229, 0.224, 0.225])
        tensors.append(torch.from_numpy(normal.astype(np.float32)).permute(2, 0, 1))
    with torch.inference_mode():
        expected = network.eval()(torch.stack(tensors)).numpy()
    build_index([tmp_path / "movienet"], output=tmp_path / "index.h5")
    settings = settings_of(tmp_path / "index.h5", encoder=tmp_path / "run")
    features = rows_of(settings.data.index, encode_shots(settings))
    # What all shots share would hide what tells them apart.
    for found, wanted in zip(features - features.mean(axis=0), expected - expected.mean(axis=0), strict=True):
        assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) >= 0.999


def test_the_store_does_not_depend_on_the_number_of_threads(index: Path) -> None:
    one = encode_shots(settings_of(index, workers=1))
    more = encode_shots(settings_of(index, workers=3, output=index.parent / "more"))
    assert contents(one) == contents(more)
    assert features_in(one)["a"].shape == (7, 1280)


@pytest.mark.slow
def test_a_cluster_makes_the_same_store_though_a_worker_is_killed(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put_indexed_stores(Path(), dict.fromkeys("abcde", 3))
    alone = encode_shots(index=Path("index.h5"), output=Path("alone"), device="cpu")
    put_store(Path("stores/f.h5"), 3, jpegs=[[b"no picture"] * 3] * 3)
    build_index([Path("stores")], output=Path("index.h5"), overwrite=True)
    told: list[tuple[str, float, float | None]] = []

    def kill_one(*state: Any) -> None:
        told.append(state)
        cluster.workers[0].kill()

    settings = with_options(
        EncodeSettings, index=Path("index.h5"), output=Path("shared"), device="cpu", dask=cluster.address
    )
    with pytest.raises(SomeFailedError) as caught:
        encode_shots(settings, kill_one)
    (line,) = caught.value.failed
    assert line == f"{tmp_path / 'stores' / 'f.h5'}: shot 0 has a keyframe that is not a JPEG that can be decoded"
    assert told[-1] == ("encoding", 18, 18)
    assert contents(settings.run.output / alone.name) == contents(alone)


# Once, and what stops it


def test_existing_features_are_not_computed_again(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    assert shots_encoded(settings) == 12
    files = list((settings.run.output / encoder.id).iterdir())
    before = [path.stat().st_mtime_ns for path in files]
    assert shots_encoded(settings) == 0
    assert [path.stat().st_mtime_ns for path in files] == before
    assert shots_encoded(with_options(settings, overwrite=True)) == 12


def test_new_videos_are_added_and_videos_of_another_index_stay(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    store = encode_shots(settings)
    before = contents(store)
    put_indexed_stores(index.parent, {**LENGTHS, "d": 2})
    assert shots_encoded(settings) == 2
    shutil.rmtree(index.parent / "stores")
    put_indexed_stores(index.parent, {"e": 3})
    assert shots_encoded(settings) == 3
    assert list(features_in(store)) == ["a", "b", "c", "d", "e"]
    assert before.items() < contents(store).items()


@pytest.mark.parametrize("overwrite", [False, True])
def test_only_a_video_of_other_keyframes_is_encoded_again(index: Path, encoder: ShotEncoder, overwrite: bool) -> None:
    settings = settings_of(index)
    store = encode_shots(settings)
    old = contents(store)
    put_store(index.parent / "stores" / "c.h5", LENGTHS["c"], seed=7)  # as many shots as before
    videos = [index.parent / "stores" / f"{name}.h5" for name in ("c" if overwrite else "abc")]
    build_index(videos, output=index, overwrite=True)
    assert find_features(read_index(index), encoder.id, settings.run.output) == ()
    refusal(lambda: features_of(read_index(index), [store]), feature_file(store, "c"), "of other shots")
    assert shots_encoded(with_options(settings, overwrite=overwrite)) == LENGTHS["c"]
    new = contents(store)
    assert [name for name in new if new[name] != old[name]] == ["c.h5"]
    np.testing.assert_allclose(features_in(store)["c"], [color(7, shot) for shot in range(4)], rtol=1e-5)
    assert find_features(read_index(index), encoder.id, settings.run.output) == (store,)
    assert shots_encoded(settings) == 0


def test_a_run_that_was_left_continues_and_gives_the_same_store(index: Path, encoder: ShotEncoder) -> None:
    def leave(doing: str, done: float, total: float | None) -> None:
        if done == 9:  # in the second video, of 7, 4 and 1 shots
            raise KeyboardInterrupt

    settings = settings_of(index)
    with pytest.raises(KeyboardInterrupt):
        encode_shots(settings, leave)
    (done,) = settings.run.output.glob("*/*.h5")
    assert done.name == "a.h5"
    leftover(done.with_name("b.h5")).write_text("half")  # as a killed process leaves it
    assert shots_encoded(settings) == 5
    assert contents(done.parent) == contents(encode_shots(settings, output=index.parent / "undisturbed"))


# What is refused


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_text("no store"), "not a file of bassl"),
        (lambda path: path.write_bytes(path.read_bytes()[:-10]), "is cut short"),
        (
            lambda path: write_features(path.parent, "other", "a", np.ones((7, 3), np.float32)),
            "has features of other, not of mean-0123456789ab",
        ),
    ],
)
def test_a_file_that_cannot_be_kept_affects_only_its_own_video(
    index: Path, encoder: ShotEncoder, damage: Any, words: str
) -> None:
    settings = settings_of(index)
    path = feature_file(encode_shots(settings), "a")
    damage(path)
    feature_file(path.parent, "b").unlink()
    refusal(lambda: encode_shots(settings), "1 of 3 videos were not", path, words, "delete", error=SomeFailedError)
    assert feature_file(path.parent, "b").exists()
    assert shots_encoded(with_options(settings, overwrite=True)) == 12


def test_only_selected_videos_are_encoded_and_need_keyframes(tmp_path: Path, encoder: ShotEncoder) -> None:
    root = put_movienet(tmp_path / "movienet")
    put_shots(root, "tt04")
    build_index([root], output=tmp_path / "index.h5")
    settings = settings_of(tmp_path / "index.h5")
    words = ("no keyframes of tt04", "bassl extract-keyframes", "`only_complete=True`")
    refusal(lambda: encode_shots(settings), *words)
    index = read_index(settings.data.index)
    labeled = encode_shots(settings, labeled=True)
    assert list(features_in(labeled)) == ["tt01", "tt02"] == [index.video_ids[v] for v in (0, 1)]
    assert find_features(index, encoder.id, settings.run.output) == ()
    assert find_features(index, encoder.id, settings.run.output, [0, 1]) == (labeled,)
    encode_shots(settings, videos=[2])
    assert list(features_in(labeled)) == ["tt01", "tt02", "tt03"]
    expected = [color(seed, shot) for seed, shots in enumerate((3, 3, 2)) for shot in range(shots)]
    np.testing.assert_allclose(np.concatenate(list(features_in(labeled).values())), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda jpeg: jpeg.write_bytes(jpeg.read_bytes()[:-40]), "shot_0001_img_1.jpg"),
        (lambda jpeg: jpeg.write_bytes(b"no picture"), "shot_0001_img_1.jpg"),
        (lambda jpeg: jpeg.unlink(), "shot_0001_img_1.jpg: no such file"),
    ],
    ids=["cut short", "no JPEG", "missing"],
)
def test_a_keyframe_that_cannot_be_read_affects_only_its_own_video(
    tmp_path: Path, encoder: ShotEncoder, damage: Any, words: str
) -> None:
    root = put_movienet(tmp_path / "movienet")
    build_index([root], output=tmp_path / "index.h5")
    settings = settings_of(tmp_path / "index.h5")
    jpeg = root / "240P_frames" / "tt01" / "shot_0001_img_1.jpg"
    sound = jpeg.read_bytes()
    damage(jpeg)
    refusal(lambda: encode_shots(settings), "1 of 3 videos were not encoded", words, error=SomeFailedError)
    made = settings.run.output / encoder.id
    assert list(features_in(made)) == ["tt02", "tt03"]
    jpeg.write_bytes(sound)
    assert shots_encoded(settings) == 3
    assert list(features_in(made)) == ["tt01", "tt02", "tt03"]


def test_an_output_folder_that_cannot_be_made_is_named_before_anything_is_encoded(
    index: Path, encoder: ShotEncoder
) -> None:
    words = (index, "cannot create its folder")
    line = refusal(lambda: encode_shots(settings_of(index), output=index), *words, error=BasslError)
    assert "were not encoded" not in line


def test_keyframe_settings_of_an_index_are_known_if_all_stores_agree(tmp_path: Path, video: Path) -> None:
    shutil.copy(video, tmp_path / "other.mp4")
    settings = {"detector": "content", "keyframes": 3, "lines": 48}
    facts = []
    for path, quality in ((video, 70), (tmp_path / "other.mp4", 71)):
        extract_keyframes([path], output=tmp_path / "stores", **settings, quality=quality)
        build_index([tmp_path / "stores"], output=tmp_path / "index.h5", overwrite=True)
        facts.append(read_index(tmp_path / "index.h5").keyframe_facts)
    assert facts == [settings | {"quality": 70}, settings]


def test_processes_with_different_encoders_do_not_share_a_store(
    index: Path, encoder: ShotEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "gather_objects", lambda process, value: [value, "mean-bfloat16-0123456789ab"])
    words = "different encoders: mean-0123456789ab, mean-bfloat16-0123456789ab; name `precision`"
    refusal(lambda: encode_shots(settings_of(index)), words, error=BasslError)
