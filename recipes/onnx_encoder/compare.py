"""An encoder file against the original network in float32: how far its features and similarities agree.

python -m recipes.onnx_encoder.compare FILE.onnx [--video VIDEO]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.datasets.synthetic import SyntheticVideoSettings, plan_video, render_keyframes
from pipelines.models.encoders.onnx_encoder import OnnxEncoder, open_onnx_encoder
from pipelines.models.encoders.shot_encoder import KEYFRAMES
from pipelines.models.networks.cut_evidence import unit_rows
from recipes.onnx_encoder.network import float_features, layers_of, published_weights

Shots = NDArray[np.uint8]
"""(shots, N_k, size, size, 3): prepared key-frames."""


def generated_shots(encoder: OnnxEncoder, videos: int) -> Shots:
    """Return shots of generated videos that no encoder was calibrated on."""
    shots = []
    for seed in range(1000, 1000 + videos):
        video = plan_video(SyntheticVideoSettings(seed=seed, width=426, height=240))
        shots += [[encoder.prepare(frame) for frame in shot] for shot in render_keyframes(video, KEYFRAMES)]
    return np.array(shots)


def video_shots(encoder: OnnxEncoder, video: Path) -> Shots:
    """Return the shots of a video as ``bassl predict`` finds them."""
    from pipelines.video.reader import VideoReader
    from pipelines.video.shots import ReaderSettings

    reader = VideoReader(video, ReaderSettings(keyframes=KEYFRAMES))
    return np.array([[encoder.prepare(frame) for frame in shot.keyframes] for shot in reader])


def original_features(shots: Shots) -> NDArray[np.float32]:
    """Return (shots, N_k, 1280) of the original network."""
    layers = layers_of(published_weights())
    with torch.inference_mode():
        features = [float_features(layers, torch.from_numpy(shot)).numpy() for shot in shots]
    return np.stack(features)


def encoded_features(encoder: OnnxEncoder, shots: Shots) -> NDArray[np.float32]:
    """Return (shots, N_k, D_e): of each key-frame alone."""
    return np.stack([encoder.encode([[frame] for frame in shot]) for shot in shots])


def agreement(found: NDArray[np.float32], original: NDArray[np.float32]) -> dict[str, float]:
    """Return how far features (shots, N_k, D_e) agree.

    ``cosine`` is the mean over key-frames of the cosine between both features, each with the mean of all taken off;
    ``similarity`` the correlation of the cosine similarities of every two shots, and ``centered_similarity`` that of
    those of shots with the mean taken off.
    """
    width = found.shape[2]
    centered = [
        unit_rows((x - x.mean(axis=(0, 1))).reshape(-1, width).astype(np.float64), 0) for x in (found, original)
    ]
    plain = [_similarities(x.mean(axis=1)) for x in (found, original)]
    of_centered = [_similarities(x.mean(axis=1) - x.mean(axis=(0, 1))) for x in (found, original)]
    return {
        "cosine": float((centered[0] * centered[1]).sum(axis=1).mean()),
        "similarity": float(np.corrcoef(plain[0], plain[1])[0, 1]),
        "centered_similarity": float(np.corrcoef(of_centered[0], of_centered[1])[0, 1]),
    }


def _similarities(shots: NDArray[np.float32]) -> NDArray[np.float64]:
    unit = unit_rows(shots.astype(np.float64), 0)
    return (unit @ unit.T)[np.triu_indices(len(unit), 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--video", type=Path, action="append", default=[])
    parser.add_argument("--generated", type=int, default=4, help="generated videos")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    encoder = open_onnx_encoder(arguments.file)
    sets = {f"{arguments.generated} generated videos": generated_shots(encoder, arguments.generated)}
    sets |= {video.name: video_shots(encoder, video) for video in arguments.video}
    for name, shots in sets.items():
        agreed = agreement(encoded_features(encoder, shots), original_features(shots))
        print(f"{name}, {len(shots)} shots: " + ", ".join(f"{what} {value:.4f}" for what, value in agreed.items()))


if __name__ == "__main__":
    main()
