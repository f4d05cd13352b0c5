"""`predict` with the times of subtitles as evidence for scene ends."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bassl import BasslError, PredictSettings, predict
from pipelines.datasets.synthetic import SyntheticVideo
from pipelines.models.speech import speech_logits
from pipelines.options import with_options
from pipelines.stages.predict import predict_file
from tests import videos
from tests.command import bassl_process

TALK = [(0.5, 6.5), (7.0, 12.0), (19.0, 21.0), (21.5, 24.0)]
NO_WORDS = "changed no score: there are no subtitles, or too few lines"


def subtitles(*spans: tuple[float, float]) -> str:
    times = [f"00:00:{start:06.3f} --> 00:00:{end:06.3f}".replace(".", ",") for start, end in spans]
    return "".join(f"{number}\n{time}\nHello\n\n" for number, time in enumerate(times, 1))


@pytest.fixture
def spoken(synthetic_video: tuple[Path, SyntheticVideo], tmp_path: Path) -> Path:
    """Half a minute in many shots, with embedded subtitles."""
    words = tmp_path / "words.srt"
    words.write_text(subtitles(*TALK))
    return videos.remuxed(tmp_path / "spoken.mkv", synthetic_video[0], words)


@pytest.fixture
def silent(video: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(video, tmp_path / "silent.mp4"))


@pytest.fixture
def settings(model: Path) -> PredictSettings:
    return with_options(PredictSettings, model=model, device="cpu", speech=True)


def test_speech_is_added_to_the_logits_of_the_scores_and_changes_nothing_else(spoken: Path, model: Path) -> None:
    images, both = (predict(spoken, model=model, device="cpu", speech=speech) for speech in (False, True))
    scores, changed = (np.array([shot.score for shot in result.shots]) for result in (images, both))
    term = speech_logits(np.array([(shot.start, shot.end) for shot in images.shots]), images.lines)
    assert np.ptp(term) > 0.3
    np.testing.assert_allclose(np.log(changed / (1 - changed)), np.log(scores / (1 - scores)) + term, atol=1e-9)
    assert [replace(shot, score=0.0) for shot in both.shots] == [replace(shot, score=0.0) for shot in images.shots]
    assert (images.settings["speech"], both.settings["speech"]) == (False, True)
    assert (both.lines, both.segments, both.warnings) == (images.lines, images.segments, images.warnings)


@pytest.mark.parametrize("words", [None, subtitles((1.0, 1.2))], ids=["no subtitles", "few lines"])
def test_without_dialogue_scores_stay_and_a_warning_says_so(silent: Path, model: Path, words: str | None) -> None:
    if words is not None:
        silent.with_suffix(".srt").write_text(words)
    images, both = (predict(silent, model=model, device="cpu", speech=speech) for speech in (False, True))
    assert both.shots == images.shots
    assert both.warnings == (*images.warnings, f"{silent}: `speech=True` {NO_WORDS}")


def test_the_command_uses_embedded_subtitles_and_warns_if_there_are_none(
    spoken: Path, silent: Path, model: Path, tmp_path: Path
) -> None:
    expected = predict(spoken, model=model, device="cpu", speech=True)
    options = f"--model {model} --device cpu --speech --json"
    run = bassl_process(f"predict {spoken.name} {options}", tmp_path)
    assert (run.code, run.complaints) == (0, [])
    assert [shot["score"] for shot in json.loads(run.out)["shots"]] == [shot.score for shot in expected.shots]
    run = bassl_process(f"predict {silent.name} {options}", tmp_path)
    assert (run.code, run.complaints) == (0, [f"warning: {silent.name}: --speech {NO_WORDS}"])


def test_a_result_with_speech_is_kept_until_the_named_subtitles_or_the_option_change(
    spoken: Path, settings: PredictSettings, tmp_path: Path
) -> None:
    file, words = tmp_path / "spoken.scenes.json", tmp_path / "other.srt"
    first = predict_file(spoken, file, settings)
    assert "unchanged; kept" in predict_file(spoken, file, settings).notes[0]
    words.write_text(subtitles(*TALK))
    assert predict_file(spoken, file, settings, subtitles=words).shots == first.shots
    words.write_text(subtitles((9.0, 20.0)))
    other = predict_file(spoken, file, settings, subtitles=words)
    assert (other.shots, other.notes) == (predict(spoken, settings, subtitles=words).shots, ())
    assert other.shots != first.shots
    without = predict_file(spoken, file, settings, speech=False)
    assert (without.shots, without.notes) == (predict(spoken, settings, speech=False).shots, ())


def test_other_subtitles_do_not_replace_corrected_scenes_whose_scores_depend_on_them(
    spoken: Path, settings: PredictSettings, tmp_path: Path
) -> None:
    file, words = tmp_path / "spoken.scenes.json", tmp_path / "other.srt"
    result = predict_file(spoken, file, settings)
    replace(result, scenes=(replace(result.scenes[0], name="Home"), *result.scenes[1:])).save(file)
    words.write_text(subtitles((9.0, 20.0)))
    before = file.read_bytes()
    with pytest.raises(BasslError, match="corrected by hand and is left as it is; `discard_corrections=True` replaces"):
        predict_file(spoken, file, settings, subtitles=words)
    assert file.read_bytes() == before
