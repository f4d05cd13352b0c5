"""Encoding an index: correct features, computed once, resumable, never those of other shots or encoders."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from numpy.typing import NDArray
from PIL import Image

from pipelines.errors import BasslError, SomeFailedError
from pipelines.models import torch_encoders
from pipelines.models.colour import hue_histogram
from pipelines.models.shot_encoder import ShotEncoder
from pipelines.options import with_options
from pipelines.progress import ReportProgress
from pipelines.stages.build_index import build_index
from pipelines.stages.encode import (
    EncodeSettings,
    encode_shots,
    parts,
    video as video_module,
)
from pipelines.stages.finetune import FinetuneSettings
from pipelines.stages.import_checkpoint import import_checkpoint
from pipelines.stages.pretrain import PretrainSettings
from pipelines.stores.features import colour_of, features_of, open_features, write_features
from pipelines.stores.index import read_index
from pipelines.stores.jpeg import from_jpeg
from pipelines.stores.lookup import find_features, keyframe_facts, store_path
from pipelines.video.resizing import resize_to_square
from tests.dask_cluster import Cluster
from tests.datasets.movienet_files import put_movienet, put_shots
from tests.released_layout import released_state
from tests.running import ENVIRONMENT
from tests.small_index import video, written
from tests.small_stores import jpeg, put_indexed_stores, put_store, refusal

LENGTHS = {"a": 7, "b": 1, "c": 4}
"""Shots of the videos; seeds of their pictures are 0, 1, 2."""


class MeanColour(ShotEncoder):
    """An encoder with known output: the mean of each channel."""

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return ((images - np.array(self.mean)) / np.array(self.std)).mean(axis=(1, 2)).astype(np.float32)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> ShotEncoder:
    """Replaces every encoder."""
    black, one = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    made = MeanColour(name="mean", id="mean-0123456789ab", width=3, size=8, mean=black, std=one, keyframes=3)
    monkeypatch.setattr(
        video_module, "load_encoder", lambda source, device, keyframes, how, options: replace(made, keyframes=keyframes)
    )
    return made


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return put_indexed_stores(tmp_path, LENGTHS)


def colour(*shot: int) -> np.ndarray:
    """What the encoder makes of the keyframes of ``jpeg(seed, shot, k)``."""
    prepared = [resize_to_square(from_jpeg(jpeg(*shot, k)), 8) for k in range(3)]
    return np.mean([picture.reshape(-1, 3).mean(axis=0) for picture in prepared], axis=0)


def settings_of(index: Path, **changes: Any) -> EncodeSettings:
    return with_options(
        with_options(EncodeSettings, index=index, output=index.parent / "features", device="cpu"), **changes
    )


def parts_of(settings: EncodeSettings) -> list[Path]:
    return sorted(settings.run.output.glob(".*.parts/*.h5"))


def shots_encoded(settings: EncodeSettings) -> int:
    """Number of shots that are encoded to make the store."""
    told: list[float] = []
    encode_shots(settings, lambda doing, done, total: told.append(done))
    return int(told[-1]) if told else 0


# --- what is in a store -----------------------------------------------------------------------------------------------


def test_the_colour_of_a_shot_is_the_hue_histogram_of_its_middle_keyframe(index: Path, encoder: ShotEncoder) -> None:
    store = encode_shots(settings_of(index))
    found = colour_of(read_index(index), [store])
    shots = [(video, shot) for video, length in enumerate(LENGTHS.values()) for shot in range(length)]
    expected = [hue_histogram(from_jpeg(jpeg(*shot, 1))) for shot in shots]
    np.testing.assert_array_equal(found, expected)


def test_the_features_of_a_shot_are_the_mean_over_its_keyframes(index: Path, encoder: ShotEncoder) -> None:
    store = encode_shots(settings_of(index))
    assert store == index.parent / "features" / "mean-0123456789ab.h5"
    name, features = features_of(read_index(index), [store])
    assert (name, features.dtype) == (encoder.id, np.float32)
    expected = [colour(seed, shot) for seed, shots in enumerate(LENGTHS.values()) for shot in range(shots)]
    np.testing.assert_allclose(features, expected, rtol=1e-5)
    assert [path.name for path in store.parent.iterdir()] == [store.name]


def test_keyframes_in_folders_of_jpeg_files_are_read_in_place(tmp_path: Path, encoder: ShotEncoder) -> None:
    build_index([put_movienet(tmp_path / "movienet")], output=tmp_path / "index.h5")
    _, features = features_of(read_index(tmp_path / "index.h5"), [encode_shots(settings_of(tmp_path / "index.h5"))])
    expected = [colour(seed, shot) for seed, shots in enumerate((3, 3, 2)) for shot in range(shots)]
    np.testing.assert_allclose(features, expected, rtol=1e-5)


def test_an_imported_checkpoint_gives_the_features_of_the_releases_own_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_encoders, "_fastest_dtype", lambda place: torch.float32)
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
    _, features = features_of(read_index(settings.index), [encode_shots(settings)])
    # What all shots share would hide what tells them apart.
    for found, wanted in zip(features - features.mean(axis=0), expected - expected.mean(axis=0), strict=True):
        assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) >= 0.999


def test_the_store_does_not_depend_on_the_number_of_threads(index: Path) -> None:
    one = encode_shots(settings_of(index, workers=1))
    more = encode_shots(settings_of(index, workers=3, output=index.parent / "more"))
    assert one.read_bytes() == more.read_bytes()
    assert open_features(one).videos["a"].shape == (7, 1280)


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
    assert store_path(settings.run.output, alone.stem).read_bytes() == alone.read_bytes()
    assert [path.name for path in settings.run.output.iterdir()] == [alone.name]


# --- once, and what stops it ------------------------------------------------------------------------------------------


def test_existing_features_are_not_computed_again(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    assert shots_encoded(settings) == 12
    before = store_path(settings.run.output, encoder.id).stat()
    assert shots_encoded(settings) == 0
    assert store_path(settings.run.output, encoder.id).stat().st_mtime_ns == before.st_mtime_ns
    assert shots_encoded(with_options(settings, overwrite=True)) == 12


def test_new_videos_are_added_and_those_of_another_index_stay(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    old = open_features(encode_shots(settings)).videos["a"].copy()
    put_indexed_stores(index.parent, {**LENGTHS, "d": 2})
    assert shots_encoded(settings) == 2
    shutil.rmtree(index.parent / "stores")
    put_indexed_stores(index.parent, {"b": 1}, seed=1)
    assert shots_encoded(settings) == 0
    put_indexed_stores(index.parent, {"e": 3})
    assert shots_encoded(settings) == 3
    store = open_features(store_path(settings.run.output, encoder.id))
    assert list(store.videos) == list(store.shots) == ["a", "b", "c", "d", "e"]
    np.testing.assert_array_equal(store.videos["a"], old)


def test_only_a_video_of_other_keyframes_is_encoded_again(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    old = dict(open_features(encode_shots(settings)).videos)
    put_store(index.parent / "stores" / "c.h5", LENGTHS["c"], seed=7)  # as many shots as before
    build_index([index.parent / "stores"], output=index, overwrite=True)
    assert shots_encoded(settings) == LENGTHS["c"]
    store = store_path(settings.run.output, encoder.id)
    new, hues = open_features(store).videos, colour_of(read_index(index), [store])
    for name in "ab":
        np.testing.assert_array_equal(new[name], old[name])
    np.testing.assert_allclose(new["c"], [colour(7, shot) for shot in range(4)], rtol=1e-5)
    assert hues is not None
    np.testing.assert_array_equal(hues[-1], hue_histogram(from_jpeg(jpeg(7, 3, 1))))
    put_indexed_stores(index.parent, {**LENGTHS, "c": 5})
    assert shots_encoded(settings) == 5
    assert shots_encoded(settings) == 0


def test_overwrite_encodes_the_videos_of_the_index_and_keeps_those_of_others(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    old = dict(open_features(encode_shots(settings)).videos)
    shutil.rmtree(index.parent / "stores")
    put_indexed_stores(index.parent, {"c": 4}, seed=7)
    assert shots_encoded(with_options(settings, overwrite=True)) == 4
    new = open_features(store_path(settings.run.output, encoder.id)).videos
    assert list(new) == ["a", "b", "c"]
    for name in "ab":
        np.testing.assert_array_equal(new[name], old[name])
    np.testing.assert_allclose(new["c"], [colour(7, shot) for shot in range(4)], rtol=1e-5)


def test_a_killed_run_continues_and_gives_the_same_store(index: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from pipelines.stages.encode import encode_shots\n"
        "def tell(doing, done, total):\n"
        "    if done == 9: os.kill(os.getpid(), signal.SIGKILL)\n"  # in the second video, of 7, 4 and 1 shots
        "encode_shots(progress=tell, index=sys.argv[1], output=sys.argv[2], device='cpu')\n"
    )
    settings = settings_of(index)
    ended = subprocess.run(
        [sys.executable, "-c", code, index, settings.run.output], env=ENVIRONMENT, timeout=120, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    (part,) = parts_of(settings)
    assert list(open_features(part).videos) == ["a"]
    part.with_name(f".{part.name}.12345678.partial").write_text("half")
    assert shots_encoded(settings) == 5
    undisturbed = encode_shots(settings, output=index.parent / "undisturbed")
    assert store_path(settings.run.output, undisturbed.stem).read_bytes() == undisturbed.read_bytes()
    assert [path.name for path in settings.run.output.iterdir()] == [undisturbed.name]


class StopError(Exception):
    pass


def stop_at(shots: int) -> ReportProgress:
    def stop(doing: str, done: float, total: float | None) -> None:
        if done >= shots:
            raise StopError

    return stop


@pytest.mark.parametrize("what", ["damaged", "of another encoder", "of other keyframes"])
def test_parts_that_cannot_be_used_are_made_again(index: Path, encoder: ShotEncoder, what: str) -> None:
    settings = settings_of(index)
    with pytest.raises(StopError):
        encode_shots(settings, stop_at(11))  # all but b
    (part,) = (part for part in parts_of(settings) if "a" in open_features(part).videos)
    seed, missing = 0, LENGTHS["a"] + LENGTHS["b"]
    if what == "damaged":
        part.write_bytes(part.read_bytes()[:-10])
    elif what == "of another encoder":
        found = open_features(part)
        write_features(part, "other-0123456789ab", dict(found.videos), found.shots)
    else:
        seed, missing = 5, sum(LENGTHS.values())
        put_indexed_stores(index.parent, LENGTHS, seed)
    assert shots_encoded(settings) == missing
    _, features = features_of(read_index(index), [store_path(settings.run.output, encoder.id)])
    np.testing.assert_allclose(features[:7], [colour(seed, shot) for shot in range(7)], rtol=1e-5)


def test_a_run_killed_before_joining_its_parts_continues(
    index: Path, encoder: ShotEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(index)
    with monkeypatch.context() as patch:
        patch.setattr(parts.StoreInParts, "join", lambda *given: stop_at(0)("encoding", 0, 0))
        with pytest.raises(StopError):
            encode_shots(settings)
    assert len(parts_of(settings)) == 3
    assert shots_encoded(settings) == 0
    assert list(open_features(store_path(settings.run.output, encoder.id)).videos) == ["a", "b", "c"]
    assert parts_of(settings) == []


def test_runs_that_join_at_the_same_time_keep_the_videos_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, write, runs = tmp_path / "features" / "mean.h5", parts.write_features, []
    for name in "ab":
        run = parts.StoreInParts(store, "mean", written(tmp_path / f"{name}.h5", video(name)), [0])
        assert run.begin(overwrite=False) == [0]
        run.keep(0, np.zeros((4, 3), np.float32), np.full((4, 2), 0.5, np.float32))
        runs.append(run)
    second = Thread(target=runs[1].join)

    def write_meanwhile(*given: Any) -> None:
        if second.ident is None:  # the first run has read what is in the store
            second.start()
            second.join(0.3)
        write(*given)

    monkeypatch.setattr(parts, "write_features", write_meanwhile)
    runs[0].join()
    second.join()
    assert list(open_features(store).videos) == ["a", "b"]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_store_from_elsewhere_is_not_extended(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    settings.run.output.mkdir()
    store = store_path(settings.run.output, encoder.id)
    write_features(store, encoder.id, {name: np.zeros((n, 3), np.float32) for name, n in LENGTHS.items()})
    refusal(lambda: encode_shots(settings), store, "was not made here", "delete it")
    store.write_text("no store")
    refusal(lambda: encode_shots(settings), store, "not a file of bassl")
    assert shots_encoded(with_options(settings, overwrite=True)) == 12


def test_an_index_without_keyframes_is_refused(tmp_path: Path, encoder: ShotEncoder) -> None:
    written(tmp_path / "index.h5", video("a"))
    told = (
        "no keyframes of a",
        "bassl extract-keyframes",
        "pretrain and finetune can also read a feature store (--features)",
    )
    refusal(lambda: encode_shots(settings_of(tmp_path / "index.h5")), *told)


def test_only_selected_videos_are_encoded_and_need_keyframes(tmp_path: Path, encoder: ShotEncoder) -> None:
    root = put_movienet(tmp_path / "movienet")
    put_shots(root, "tt04")
    build_index([root], output=tmp_path / "index.h5")
    settings = settings_of(tmp_path / "index.h5")
    refusal(lambda: encode_shots(settings), "no keyframes of tt04", "--only-complete")
    index = read_index(settings.index)
    labelled = encode_shots(replace(settings, labelled=True))
    assert sorted(open_features(labelled).videos) == ["tt01", "tt02"] == [index.video_ids[v] for v in (0, 1)]
    assert find_features(index, encoder.id, settings.run.output) == ()
    assert find_features(index, encoder.id, settings.run.output, [0, 1]) == (labelled,)
    _, features = features_of(index, [labelled], [0, 1])
    assert features.shape == (len(index.label), 3)
    np.testing.assert_array_equal(features[index.span(1)], open_features(labelled).videos["tt02"])
    encode_shots(settings, videos=[2])
    assert sorted(open_features(labelled).videos) == ["tt01", "tt02", "tt03"]


def test_a_damaged_keyframe_affects_only_its_own_video(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    store = index.parent / "stores" / "c.h5"
    sound = store.read_bytes()
    content = bytearray(sound)
    content[content.rindex(jpeg(2, 3, 2)) + 100] ^= 255
    store.write_bytes(content)
    refusal(lambda: encode_shots(settings), "lacks 1 of 3 videos", store, "shot 3 is damaged", error=SomeFailedError)
    assert list(open_features(store_path(settings.run.output, encoder.id)).videos) == ["a", "b"]
    store.write_bytes(sound)
    assert shots_encoded(settings) == LENGTHS["c"]
    assert list(open_features(store_path(settings.run.output, encoder.id)).videos) == ["a", "b", "c"]


def test_a_missing_or_invalid_jpeg_in_a_folder_affects_only_its_own_video(tmp_path: Path, encoder: ShotEncoder) -> None:
    root = put_movienet(tmp_path / "movienet")
    build_index([root], output=tmp_path / "index.h5")
    damaged, gone = (root / "240P_frames" / name / "shot_0001_img_1.jpg" for name in ("tt01", "tt03"))
    damaged.write_bytes(damaged.read_bytes()[:-40])
    gone.unlink()
    with pytest.raises(SomeFailedError) as caught:
        encode_shots(settings_of(tmp_path / "index.h5"))
    assert [line.partition(":")[0] for line in caught.value.failed] == [str(damaged), str(gone)]
    assert list(open_features(tmp_path / "features" / "mean-0123456789ab.h5").videos) == ["tt02"]


def test_keyframes_that_are_not_jpegs_are_named_and_leave_no_store(index: Path, encoder: ShotEncoder) -> None:
    store = index.parent / "stores" / "c.h5"
    put_store(store, 4, seed=2, jpegs=[[b"no picture"] * 3] * 4)
    build_index([store], output=index, overwrite=True)
    settings = settings_of(index)
    refusal(lambda: encode_shots(settings), store, "shot 0 has a keyframe that is not a JPEG", error=SomeFailedError)
    assert list(settings.run.output.iterdir()) == []


def test_an_unwritable_output_folder_is_refused(index: Path, encoder: ShotEncoder) -> None:
    refusal(lambda: encode_shots(settings_of(index, output=index)), index, "folder cannot be made", error=BasslError)


def test_paths_can_be_given_as_text() -> None:
    assert with_options(EncodeSettings, index="index.h5", encoder="resnet50", output="store") == with_options(
        EncodeSettings, index=Path("index.h5"), encoder="resnet50", output=Path("store")
    )
    assert PretrainSettings(features="a.h5") == PretrainSettings(features=(Path("a.h5"),))
    assert with_options(FinetuneSettings, output="run") == with_options(FinetuneSettings, output=Path("run"))


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="workers must be at least 1, not 0"):
        EncodeSettings(workers=0)


# --- from elsewhere ---------------------------------------------------------------------------------------------------


def test_features_of_other_shots_or_only_some_videos_are_not_used(index: Path, encoder: ShotEncoder) -> None:
    settings = settings_of(index)
    store = encode_shots(settings)
    assert find_features(read_index(index), encoder.id, settings.run.output) == (store,)
    put_indexed_stores(index.parent, {**LENGTHS, "d": 2})
    assert find_features(read_index(index), encoder.id, settings.run.output) == ()
    encode_shots(settings)
    assert find_features(read_index(index), encoder.id, settings.run.output) == (store,)
    put_indexed_stores(index.parent, LENGTHS, seed=1)
    assert find_features(read_index(index), encoder.id, settings.run.output) == ()
    refusal(lambda: features_of(read_index(index), [store]), store, "features of a are of other shots")


def test_keyframe_settings_of_an_index_are_known_if_all_stores_agree(tmp_path: Path, video: Path) -> None:
    from pipelines.stages.extract_keyframes import extract_keyframes

    stores = tmp_path / "stores"
    extract_keyframes([video], output=stores, detector="content", lines=48, quality=70)
    build_index([stores], output=tmp_path / "one.h5")
    made = {"detector": "content", "keyframes": 3, "lines": 48, "quality": 70}
    assert keyframe_facts(read_index(tmp_path / "one.h5")) == made
    shutil.copy(video, tmp_path / "other.mp4")
    extract_keyframes(
        [tmp_path / "other.mp4"],
        output=stores,
        detector="content",
        lines=48,
        quality=71,
    )
    build_index([stores], output=tmp_path / "two.h5")
    assert keyframe_facts(read_index(tmp_path / "two.h5")) == {k: v for k, v in made.items() if k != "quality"}
    build_index([put_movienet(tmp_path / "movienet")], output=tmp_path / "movienet.h5")
    assert keyframe_facts(read_index(tmp_path / "movienet.h5")) == {}
