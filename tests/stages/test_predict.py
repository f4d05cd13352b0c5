"""The Python API: `predict` of one video and of several."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch

import bassl
import pipelines
from bassl import BasslError, PredictSettings, Scene, SceneList, load_model, predict
from pipelines.datasets.synthetic import SyntheticVideo
from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders import EncoderOptions
from pipelines.models.encoders.torch_encoders import torch_encoder, trainable_encoder
from pipelines.models.networks import CRNSettings, MLPSettings, MSLSTMSettings, RelationalSettings, Shape
from pipelines.models.networks.torch_networks import build_network
from pipelines.models.opening import BUILT_IN, OpenedModel, open_model
from pipelines.options import with_options
from pipelines.progress import VideoProgress
from pipelines.scenes import entry
from pipelines.settings import Grouping, Reading
from pipelines.stages.build_index import build_index
from pipelines.stages.encode import encode_shots
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes
from pipelines.stages.predict import predict_videos, scoring
from pipelines.stages.predict.model import model_reader_settings
from pipelines.stores.features import features_of
from pipelines.stores.index import Index, read_index
from pipelines.video.shots import KeyframedShot, ReaderSettings
from tests import videos
from tests.onnx_networks import write_network
from tests.predicting import predict_file
from tests.running import ENVIRONMENT
from tests.scenes_schema import SCHEMA
from tests.videos import CUTS

needs_model = pytest.mark.skipif(not BUILT_IN.exists(), reason="the model in the package has not been made yet")


@pytest.fixture(scope="module")
def result(video: Path, model: Path) -> SceneList:
    return predict(video, model=model, device="cpu")


def test_predict_returns_scored_shots_and_scenes_that_cover_the_video(result: SceneList, tmp_path: Path) -> None:
    assert [shot.start_frame for shot in result.shots] == [0, *CUTS]
    assert all(type(shot.score) is float and 0 <= shot.score <= 1 for shot in result.shots)
    edges = [(scene.start_shot, scene.start_frame, scene.start) for scene in result.scenes]
    edges.append((4, result.video.frames, result.video.duration))
    assert edges[0] == (0, 0, 0)
    assert [(scene.end_shot, scene.end_frame, scene.end) for scene in result.scenes] == edges[1:]
    result.save(tmp_path / "scenes.json")
    saved = json.loads((tmp_path / "scenes.json").read_text())
    jsonschema.validate(saved, SCHEMA)
    assert (tmp_path / saved["video"].pop("relative_path")).samefile(result.video.path)
    assert (saved["video"], saved["shots"]) == (entry(result.video), [entry(shot) for shot in result.shots])
    assert [Scene(**scene) for scene in saved["scenes"]] == list(result.scenes)
    assert [shot.get("transition", {}).get("kind") for shot in saved["shots"]] == ["cut"] * 3 + [None]


def test_everything_that_determines_the_result_is_recorded(result: SceneList, model: Path) -> None:
    expected: dict[str, Any] = asdict(Reading("transitions")) | Grouping().resolved()
    expected |= {"model": None, "encoder": "efficientnet_lite0", "device": "cpu"}
    del expected["duration"]  # recorded as the end
    expected |= {"model": str(model), "bassl": pipelines.__version__, "encoder_id": "efficientnet_lite0-d069d09dc7fa"}
    assert expected.items() <= result.settings.items()
    assert not {"encoder_options", "duration"} & {*result.settings}
    assert result.settings["precision"] == "int8"
    assert result.settings["model_id"] == hashlib.sha256(model.read_bytes()).hexdigest()[:12]


@pytest.mark.real_child
def test_progress_and_shots_are_passed_on_and_nothing_is_printed(
    video: Path, model: Path, result: SceneList, capfd: pytest.CaptureFixture[str]
) -> None:
    states: list[tuple[str, float, float | None]] = []
    shots: list[KeyframedShot] = []
    settings = PredictSettings(model=model)
    assert result == predict(
        str(video), settings, device="cpu", progress=lambda *state: states.append(state), on_shot=shots.append
    )
    assert tuple(capfd.readouterr()) == ("", "")
    assert [stage for stage, *_ in states][-1] == "scoring"
    assert ("reading", pytest.approx(5.0), pytest.approx(5.0)) in states
    assert [shot.start_frame for shot in shots] == [0, *CUTS]
    assert videos.number_of(shots[1].keyframes[1]) == 45


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"video": "gone.mp4"}, "gone.mp4: no such file"),
    ({"video": "text.txt"}, "text.txt: .*not a video"),
    ({"video": "https://example.com/movie.mp4"}, "^https://example.com/movie.mp4: is a URL, but bassl reads files"),
    ({"model": "text.txt"}, "text.txt: .*safetensors"),
    ({"model": "folder"}, "folder/model.safetensors: no such run or model"),
    ({"model": "pretrained.safetensors"}, "pretrained.safetensors: is pre-trained only"),
    ({"encoder": "vgg"}, "unknown encoder 'vgg'; choose efficientnet_lite0"),
    ({"encoder": "gone.onnx"}, "gone.onnx: no such run, model or ONNX file"),
    ({"device": "quantum"}, "unknown device 'quantum'"),
    ({"detector": "sharp"}, "detector must be one of transitions, adaptive"),
    ({"shots": "gone.txt"}, "gone.txt: no such file"),
    ({"shots": "text.txt"}, "text.txt, line 1"),
    ({"shots": "beyond.txt"}, "beyond.txt.* 500.* 120 frames"),
    ({"shots": "-"}, "shots and subtitles are read from files, not from stdin"),
    *(({"threshold": value}, "threshold") for value in (0.0, 1.0, float("nan"))),
    *(({"min_scene": value}, "min_scene must be at least 0") for value in (-1.0, float("inf"))),
    ({"max_scene": 10, "min_scene": 11}, "the shortest scene, 11 s, is longer than the longest, 10 s"),
    ({"scenes": 0}, "scenes must be at least 1"),
    ({"scenes": 5}, "4 shots.* 5 scenes"),
    ({"scenes": 4, "min_scene": 2.0}, "4 scenes"),
    ({"output": "scenes.xyz"}, "unknown extension .xyz; supported: .json"),
    ({"output": "text.txt/scenes.json"}, "cannot create its folder"),
    ({"output": "video.mp4"}, "is an input of this command"),
    ({"page": "folder"}, "is a folder"),
]


@pytest.mark.parametrize(("wrong", "words"), UNUSABLE)
def test_unusable_input_is_one_line_and_writes_nothing(
    video: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], words: str
) -> None:
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    (work / "text.txt").write_text("neither shots nor a model\n")
    (work / "beyond.txt").write_text("7\n500\n")
    (work / "video.mp4").symlink_to(video)
    save_bassl_model(work / "pretrained.safetensors", BasslWeights(BasslSettings("resnet18", None), {}, {}, {}))
    monkeypatch.chdir(work)
    before = {path.name for path in work.iterdir()}
    scored: list[str] = []
    with pytest.raises((BasslError, ValueError), match=words) as caught:
        predict_file(
            **{"video": "video.mp4", "output": None, "model": model} | wrong,
            progress=lambda stage, done, total: scored.append(stage),
        )
    assert "\n" not in str(caught.value)
    assert {path.name for path in work.iterdir()} == before
    assert not ({"output", "page"} & wrong.keys() and scored), "refused before the video is read"


def test_an_onnx_file_can_be_the_encoder(video: Path, model: Path, tmp_path: Path) -> None:
    network = write_network(tmp_path / "means.onnx", shape=("B", 3, None, None))
    options = EncoderOptions(encoder_mean=(0.5, 0.5, 0.5), encoder_std=(0.2, 0.2, 0.2), encoder_size=32)
    result = predict(video, PredictSettings(model=model, encoder=str(network), encoder_options=options))
    assert result.settings["encoder"] == "means"
    assert result.settings["encoder_id"].startswith("means-")
    assert result.settings["encoder_options"]["encoder_size"] == 32
    with pytest.raises(BasslError, match="is of any size; it is one number"):
        predict(video, PredictSettings(model=model, encoder=str(network)))
    with pytest.raises(BasslError, match="are for ONNX files, not for efficientnet_lite0"):
        predict(video, PredictSettings(model=model, encoder_options=options))


@needs_model
def test_the_built_in_model_gives_scene_ends_higher_scores(synthetic_video: tuple[Path, SyntheticVideo]) -> None:
    path, video = synthetic_video
    shots = predict(path).shots[:-1]
    true = [shot.start_frame for before, shot in pairwise(video.shots) if before.scene != shot.scene]
    ends = {shot.index for shot in shots if min(abs(shot.end_frame - frame) for frame in true) < 12}
    inside = [shot.score for shot in shots if shot.index not in ends]
    assert np.mean([shots[i].score for i in ends]) > np.mean(inside) + 0.05


@needs_model
@pytest.mark.parametrize("frames", [1, 2])
def test_a_video_of_one_or_two_frames_is_one_certain_scene(tmp_path: Path, frames: int) -> None:
    result = predict(videos.write_video(tmp_path / "short.mp4", videos.images(frames)))
    (scene,) = result.scenes
    assert (scene.start_frame, scene.end_frame, scene.confidence) == (0, frames, 1.0)


def test_a_loaded_model_predicts_many_videos_and_loads_nothing_again(
    video: Path, model: Path, result: SceneList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_model(model, device="cpu")
    other = videos.write_video(tmp_path / "other.mp4", videos.images(60, (30,)))
    expected = predict(other, model=model, device="cpu", scenes=2)

    def fail(*arguments: object) -> None:
        raise AssertionError("loaded again")

    monkeypatch.setattr(scoring, "load_encoder", fail)
    monkeypatch.setattr(OpenedModel, "boundary_model", fail)
    assert loaded.predict(video) == result
    assert loaded.predict(str(other), scenes=2) == expected
    assert loaded.predict(video) == result


def test_options_that_do_not_exist_here_are_refused_with_what_to_do(video: Path, model: Path) -> None:
    loaded = load_model(model)
    with pytest.raises(TypeError, match=r"^encoder is not an option of a video \(load_model takes"):
        loaded.predict(video, encoder="resnet50")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^treshold is not an option of a video .*; did you mean threshold\?$"):
        loaded.predict(video, treshold=0.4)  # type: ignore[call-arg]
    calls: list[Callable[[Any], Any]] = [bassl.SceneModel, partial(predict, video)]
    for call in [*calls, partial(predict_videos, video, "out")]:
        with pytest.raises(TypeError, match=r"^settings must be PredictSettings, not 0\.4; options are passed by name"):
            call(0.4)


# --- fine-tuned models ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def staged(synthetic_video: tuple[Path, SyntheticVideo], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index of a video whose keyframes are small, of low quality, four a shot and cut by another detector."""
    folder = tmp_path_factory.mktemp("staged")
    settings = with_options(
        ExtractSettings, output=folder / "keyframes", detector="content", keyframes=4, lines=100, quality=40
    )
    extract_keyframes([synthetic_video[0]], settings)
    build_index([folder / "keyframes"], output=folder / "index.h5")
    return folder / "index.h5"


SHAPES: dict[str, Shape] = {
    "transformer": CRNSettings(3, 1280, 16, 1, 2, 32),
    "mlp": MLPSettings(2, 1280, 16),
    "ms-lstm": MSLSTMSettings(2, 1280, 8, 4),
    "relational": RelationalSettings(),
}


def put_run(folder: Path, index: Index, crn: Any = "mlp", **changes: Any) -> Path:
    """Return a run on an index and the default encoder, with untrained networks."""
    torch.manual_seed(0)
    encoder = load_encoder("efficientnet_lite0", "cpu", index.keyframes)
    model = BoundaryModel(
        crn=crn,
        network=build_network(crn, SHAPES[crn]),
        shape=SHAPES[crn],
        # Networks that have learned nothing say nearly the same of all shots; steep, they say different things.
        calibration=Calibration(slope=2.0 if crn == "relational" else 20.0, offset=0.1),
        encoder=encoder.id,
        encoder_name=encoder.name,
        keyframes=index.keyframes,
        keyframe_facts=index.keyframe_facts,
    )
    save_boundary_model(folder / "model.safetensors", replace(model, **changes))
    return folder


def as_score_sees_it(run: Path, path: Path, encoder: str | Path = "efficientnet_lite0") -> np.ndarray:
    """Return the scores of the video in an index, from its keyframe store, the feature store and the model."""
    store = encode_shots(index=path, encoder=encoder, output=path.parent / "features", device="cpu")
    index = read_index(path)
    stored, shots = features_of(index, [store]), index.span(0)
    assert stored.color is not None
    features, color = stored.features[shots], stored.color[shots]
    assert np.ptp(color, axis=0).max() > 0
    return open_model(run).boundary_model().score(features, np.diff(index.seconds, axis=1)[:, 0], color)


@pytest.mark.parametrize("crn", SHAPES)
def test_predict_scores_as_the_separate_stages(
    synthetic_video: tuple[Path, SyntheticVideo], staged: Path, tmp_path: Path, crn: str
) -> None:
    run = put_run(tmp_path / "run", read_index(staged), crn)
    result = predict(synthetic_video[0], model=run, device="cpu")
    expected = as_score_sees_it(run, staged)
    assert len(expected) > 20
    assert np.ptp(expected) > 0.01
    # The features are the same to the bit: the same images in the same groups. The last layers may use other threads.
    np.testing.assert_allclose([shot.score for shot in result.shots], expected, rtol=0, atol=1e-5)
    assert result.settings["detector"] == "content"
    assert result.settings["model"] == str(run)


@pytest.mark.parametrize(
    ("reading", "changes"),
    [
        (Reading(), {}),
        (Reading(min_shot=0.5), {"min_shot": 0.5}),
        (Reading("content", 31.0), {"detector_threshold": 31.0}),
        # Options of one detector mean nothing to another.
        (Reading("adaptive"), {"detector": "adaptive", "detector_threshold": None, "min_shot": None}),
        (Reading(start=2.0, duration=3.0), {"start": 2.0, "end": 5.0}),
    ],
)
def test_videos_are_read_with_the_settings_of_the_model_or_others(reading: Reading, changes: dict[str, Any]) -> None:
    pictures = {"lines": 120, "detector": "content", "detector_threshold": 20.0, "min_shot": 0.2, "quality": 50}
    model = OpenedModel(Path("run"), Path("model.safetensors"), "boundary", {"pictures": pictures, "keyframes": 4})
    expected = ReaderSettings("content", 20.0, 0.2, keyframes=4, lines=120)
    assert model_reader_settings(model, reading) == replace(expected, **changes)


ENCODER = "timm:test_resnet"


def test_a_pre_trained_encoder_is_stored_in_the_model_file(video: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    weights = trainable_encoder(ENCODER, pretrained=False).network.state_dict()
    pretrained = tmp_path / "pretrained.safetensors"
    save_bassl_model(pretrained, BasslWeights(BasslSettings(ENCODER, None), weights, {}, {}))
    extract_keyframes([video], output=tmp_path / "keyframes")
    build_index([tmp_path / "keyframes"], output=tmp_path / "index.h5")
    shape = MLPSettings(2, 96, 16)
    run = put_run(
        tmp_path / "run",
        read_index(tmp_path / "index.h5"),
        network=build_network("mlp", shape),
        shape=shape,
        encoder=load_encoder(pretrained, "cpu").id,
        encoder_name=ENCODER,
        encoder_weights=weights,
        input_size=224,
    )
    result = predict(video, model=run, device="cpu")
    expected = as_score_sees_it(run, tmp_path / "index.h5", pretrained)
    np.testing.assert_allclose([shot.score for shot in result.shots], expected, rtol=0, atol=1e-5)
    assert result.settings["encoder_id"] == torch_encoder(ENCODER, weights, "cpu").id
    # By that name, the published weights would be meant.
    with pytest.raises(BasslError, match=r"was trained on features of timm-test_resnet-.*, not of timm:test_resnet;"):
        predict(video, model=run, encoder=ENCODER, device="cpu")


def test_a_relational_model_reads_any_encoder(video: Path, model: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    weights = trainable_encoder(ENCODER, pretrained=False).network.state_dict()
    save_bassl_model(tmp_path / "model.safetensors", BasslWeights(BasslSettings(ENCODER, None), weights, {}, {}))
    result = predict(video, model=model, encoder=str(tmp_path), device="cpu")
    assert result.settings["encoder_id"] == load_encoder(tmp_path, "cpu").id


OTHER = {"a": torch.zeros(1)}
UNFIT: list[tuple[dict[str, Any], str | None, str]] = [
    ({}, "resnet50", "was trained on features of .*, not of resnet50; leave `encoder` out"),
    ({"keyframes": 3}, None, "efficientnet_lite0 with 3 keyframes per shot is efficientnet_lite0-d069d09dc7fa here"),
    ({"encoder": "ovsd-512d", "encoder_name": None}, None, "features called 'ovsd-512d', which cannot be computed"),
    ({"shape": MLPSettings(2, 8, 8)}, None, "needs features of width 8, but .* has 1280"),
    ({"encoder_weights": OTHER, "encoder_name": "resnet18"}, None, "shot encoder is not a resnet18"),
    ({"encoder_weights": OTHER, "encoder_name": None}, None, "no encoder '' can be trained"),
    (
        {"encoder_weights": "untrained", "encoder_name": ENCODER, "input_size": 64},
        None,
        "per shot is timm-test_resnet-",
    ),
    ({"keyframe_facts": {"lines": "many"}}, None, "its weights and settings do not fit"),
]


def test_a_model_with_another_encoder_is_an_error(video: Path, staged: Path, tmp_path: Path) -> None:
    index = read_index(staged)
    put_run(tmp_path, index)
    for encoder in ("efficientnet_lite0", load_encoder("efficientnet_lite0", "cpu", 4).id):
        assert predict(video, PredictSettings(model=tmp_path, encoder=encoder)).shots
    for fields, other, words in UNFIT:
        changes = dict(fields)
        if "shape" in changes:
            changes["network"] = build_network("mlp", changes["shape"])
        if changes.get("encoder_weights") == "untrained":
            changes["encoder_weights"] = trainable_encoder(ENCODER, pretrained=False).network.state_dict()
        put_run(tmp_path, index, **changes)
        with pytest.raises(BasslError, match=words) as caught:
            predict(video, model=tmp_path, encoder=other, device="cpu")
        assert "\n" not in str(caught.value)
        assert str(tmp_path) in str(caught.value)


@pytest.fixture
def library(video: Path, tmp_path: Path) -> Path:
    """Return two videos with the same name in different folders, and two files that are not videos."""
    folder = tmp_path / "videos"
    (folder / "b").mkdir(parents=True)
    for name in ("a.mp4", "b/a.mp4"):
        shutil.copy(video, folder / name)
    videos.truncated(video, folder / "cut.mp4", 0.5)
    (folder / "notes.txt").write_text("no video")
    return folder


def test_each_video_gets_a_file_and_a_bad_one_fails_alone(
    library: Path, model: Path, result: SceneList, tmp_path: Path
) -> None:
    states: list[VideoProgress] = []
    settings = with_options(PredictSettings, model=model, device="cpu")
    results = predict_videos([library], tmp_path / "out", settings, progress=states.append)
    assert {result.output.name: result.status for result in results} == {
        "videos_a.scenes.json": "done",
        "b_a.scenes.json": "done",
        "cut.scenes.json": "failed",
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["b_a.scenes.json", "videos_a.scenes.json"]
    assert any(state.done == pytest.approx(5.0) for state in states)
    first, other, failed = results
    assert (first.scenes, first.shots, first.duration) == (len(result.scenes), 4, result.video.duration)
    assert failed.error.startswith(f"{library / 'cut.mp4'}: ")
    assert "\n" not in failed.error
    written = json.loads(first.output.read_text())
    jsonschema.validate(written, SCHEMA)
    paths = {key: written["video"][key] for key in ("path", "relative_path", "modified")}
    assert written == result.to_dict() | {"video": entry(result.video) | paths | {"id": "videos_a"}}
    assert json.loads(other.output.read_text())["video"]["id"] == "b_a"


def written_by(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.real_child
@pytest.mark.slow
@pytest.mark.parametrize("where", ["children", "cluster"])
def test_videos_in_parallel_get_the_same_scenes(
    library: Path, model: Path, tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("monkeypatch").chdir(tmp_path)
    metadata = {"mean": "[0, 0, 0]", "std": "[1, 1, 1]"}
    encoder = write_network(Path("means.onnx"), shape=("B", 3, 32, 32), metadata=metadata)
    settings = with_options(PredictSettings, model=model, encoder=str(encoder), device="cpu", min_scene=0.5)
    one_by_one = predict_videos([Path("videos")], Path("out"), settings, pages=True, jobs=1)
    before, states = written_by(Path("out")), list[VideoProgress]()
    options = {"jobs": 2} if where == "children" else {"dask": request.getfixturevalue("cluster").address}
    again = predict_videos(
        [Path("videos")], Path("out"), settings, pages=True, overwrite=True, progress=states.append, **options
    )
    assert [result.status for result in again] == ["done", "done", "failed"]
    if where == "children":
        assert (again, written_by(Path("out"))) == (one_by_one, before)
        assert {state.video_id for state in states if state.done} >= {"videos_a", "b_a"}
    for path in Path("out").glob("*.json"):  # of a cluster, it has absolute paths
        assert json.loads(path.read_text())["shots"] == json.loads(before[path.name])["shots"]


def test_another_model_under_the_same_name_is_detected(video: Path, staged: Path, tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", read_index(staged))
    predict_videos([video], tmp_path / "out", PredictSettings(model=run))
    put_run(tmp_path / "run", read_index(staged), calibration=Calibration(1.0, 0.0))
    (result,) = predict_videos([video], tmp_path / "out", PredictSettings(model=run))
    assert result.status == "done"


def test_a_model_whose_scores_are_not_calibrated_is_warned_about(video: Path, staged: Path, tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", read_index(staged), calibration=Calibration())
    words = f"{run / 'model.safetensors'}: its scores are not calibrated"
    assert [words in warning for warning in predict(video, model=run).warnings].count(True) == 1
    for decided in ({"threshold": 0.5}, {"scenes": 2}):
        assert predict(video, model=run, **decided).warnings == ()
    put_run(run, read_index(staged))
    assert not any("not calibrated" in warning for warning in predict(video, model=run).warnings)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"output": "file"}, "cannot create its folder"),
        ({"shots": "cuts.txt"}, "cuts.txt: is a list of shots of one video, but there are 3 videos"),
        ({"subtitles": "a.srt"}, "a.srt: has subtitles of one video, but there are 3 videos"),
        ({"jobs": 0}, "jobs must be at least 1, not 0"),
        ({"pages": True, "output": "folder"}, r"index\.html: is a folder; name a file to write"),
    ],
)
def test_settings_that_fail_for_all_videos_raise_an_error(
    library: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], words: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder/index.html").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((BasslError, ValueError), match=words):
        predict_videos(**{"inputs": [library], "output": "out", "model": model} | wrong)
    assert not [*tmp_path.glob("*/*.json")]


@pytest.mark.parametrize(
    ("call", "heavy"),
    [
        ("bassl.predict, bassl.PredictSettings", "torch av cv2 numpy scenedetect"),
        ("bassl.predict({video!r})", "torch h5py sklearn pandas matplotlib scenedetect"),
    ],
    ids=["the library", "the built-in model"],
)
def test_what_is_not_needed_is_not_imported(video: Path, call: str, heavy: str) -> None:
    code = f"import sys, bassl; {call.format(video=str(video))}; print({set(heavy.split())} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
