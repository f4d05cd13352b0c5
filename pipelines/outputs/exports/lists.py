"""Lists of scenes: CSV, JSON Lines, and tasks for the labelling tool Label Studio."""

from __future__ import annotations

import csv
import io
import json
from urllib.parse import quote

from pipelines.outputs.exports.segments import segments_of
from pipelines.outputs.exports.timecode import edit_rate
from pipelines.outputs.exports.timeline import timeline_frames
from pipelines.outputs.tables import no_formula
from pipelines.scenes import SceneList, entry, timecode

# PySceneDetect's, in its order; scripts that read its lists read ours.
_COLUMNS = (
    "Scene Number",
    "Start Frame",
    "Start Timecode",
    "Start Time (seconds)",
    "End Frame",
    "End Timecode",
    "End Time (seconds)",
    "Length (frames)",
    "Length (timecode)",
    "Length (seconds)",
)


def table(scenes: SceneList, shots: bool = False) -> str:
    """CSV with the columns of PySceneDetect's ``list-scenes``, then the name and the score.

    As there, frames count from one, and the end frame is the last of the scene. Its writer is not used because it works
    out frames from times, which is wrong where the frame rate varies.
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*_COLUMNS, "Name", "Score" if shots else "Confidence"])
    for segment in segments_of(scenes, shots):
        rows.writerow(
            [
                segment.number,
                segment.start_frame + 1,
                timecode(segment.start),
                f"{segment.start:.3f}",
                segment.end_frame,
                timecode(segment.end),
                f"{segment.end:.3f}",
                segment.end_frame - segment.start_frame,
                timecode(segment.end - segment.start),
                f"{segment.end - segment.start:.3f}",
                no_formula(segment.name),
                f"{segment.score:.4f}",
            ]
        )
    return text.getvalue()


def json_lines(scenes: SceneList, shots: bool = False) -> str:
    """One JSON object a line: the entries of ``scenes.json``, each with the path of its video."""
    listed = scenes.shots if shots else scenes.scenes
    lines = [json.dumps({"video": scenes.video.path, **entry(item)}, allow_nan=False) for item in listed]
    return "\n".join(lines) + "\n"


def label_studio(scenes: SceneList, shots: bool = False) -> str:
    """One task for Label Studio with the scenes as predictions, to be corrected there.

    The labelling setup that it fits::

        <View>
          <Video name="video" value="$video" frameRate="$fps"/>
          <TimelineLabels name="segments" toName="video"><Label value="Scene"/><Label value="Shot"/></TimelineLabels>
        </View>

    Label Studio counts frames from one, at the constant rate it is given, and its ranges end with their last frame. The
    film is named as in Label Studio's local storage: its path below the root that this serves.
    """
    rate = edit_rate(scenes.video.frame_rate)
    places = timeline_frames(scenes, rate)
    unit = "Shot" if shots else "Scene"
    regions = [
        {
            "id": f"{unit.lower()}-{segment.number}",
            "from_name": "segments",
            "to_name": "video",
            "type": "timelinelabels",
            "value": {
                "ranges": [{"start": places[segment.start_frame] + 1, "end": places[segment.end_frame]}],
                "timelinelabels": [unit],
            },
            "meta": {"text": [segment.name]},
            "score": segment.score,
        }
        for segment in segments_of(scenes, shots)
    ]
    path = scenes.video.path.encode(errors="surrogateescape").lstrip(b"/")
    task = {
        "data": {"video": f"/data/local-files/?d={quote(path)}", "fps": float(rate)},
        "predictions": [{"model_version": f"bassl {scenes.settings.get('bassl', '')}".strip(), "result": regions}],
    }
    return json.dumps([task], indent=1, allow_nan=False) + "\n"
