"""Audio features of shots: log-mel statistics from the sound of a video, decoded once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, takewhile
from pathlib import Path

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from numpy.typing import NDArray

from pipelines.errors import VideoError
from pipelines.video.containers import INDEXED, demux, layout_of, open_container, program_tracks, video_stream
from pipelines.video.decoding import CLOCK_NOISE, first_frame_time
from pipelines.video.runs import Damage

RATE = 16000  # hertz, to which sound is resampled
WINDOW, HOP, FFT = 400, 160, 512  # samples of a spectrum frame (25 ms), from one to the next (10 ms), and of its FFT
BANDS = 64
LOWEST, HIGHEST = 60.0, 7800.0  # hertz: lower edge of the first band, upper edge of the last
FLOOR = 1e-6  # added to the energy of a band before the logarithm, so that silence has a finite value
SOUND = "log-mel-64"  # name of these features in a store

# A timestamp that differs by more than this, in seconds, is a gap or an overlap, not rounding.
_JUMP = 0.02
_SILENT = 0.001  # amplitude of silence, at most: -60 dB
_SHORTEST_SILENCE = 1.0  # seconds
_PREROLL = 1.0  # seconds of sound that a decoder may need before a time
_BLOCK = 4096  # spectrum frames computed at a time

Floats = NDArray[np.float64]


@functools.cache
def mel_filters(bands: int = BANDS, fft: int = FFT, rate: int = RATE) -> Floats:
    """Return triangular mel filters over the bins of a spectrum, (bands, fft // 2 + 1), read-only, with corners evenly
    spaced on the mel scale and peaks of 1 (Davis and Mermelstein 1980)."""
    # m = 2595 log10(1 + f / 700) (O'Shaughnessy, Speech communication, 1987)
    lowest, highest = 2595 * np.log10(1 + np.array([LOWEST, HIGHEST]) / 700)
    corners = 700 * (10 ** (np.linspace(lowest, highest, bands + 2) / 2595) - 1)
    bins = np.arange(fft // 2 + 1) * rate / fft
    low, peak, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    filters = np.asarray(np.maximum(0.0, np.minimum((bins - low) / (peak - low), (high - bins) / (high - peak))))
    filters.setflags(write=False)  # the cached array is shared
    return filters


def log_mel(samples: Floats) -> Floats:
    """Return the natural logarithm of the energy in each band, (frames, BANDS), of samples (n,) from -1 to 1. Frame i
    has WINDOW samples from sample HOP i; an incomplete window at the end is left out."""
    count = max(0, (len(samples) - WINDOW) // HOP + 1)
    if not count:
        return np.zeros((0, BANDS))
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP][:count]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW + 1)[:-1], FFT, axis=1)) ** 2 / WINDOW
    return np.asarray(np.log(power @ mel_filters().T + FLOOR))


def shot_sounds(
    path: Path,
    shots: Floats,
    progress: Callable[[float, float], None] = lambda done, total: None,
    warn: Callable[[str], None] = lambda line: None,
) -> NDArray[np.float32]:
    """Compute audio features of each shot of a video: (N, 2 BANDS) float32, mean and standard deviation of `log_mel`
    over the spectrum frames whose middle is in the shot; without sound the logarithm of FLOOR, and 0.

    ``shots`` (N, 2) are start and end in seconds from the video's first frame. ``progress`` is called with the seconds
    read and the total. Raise VideoError for a video that cannot be read or has no sound.
    """
    N, damage = len(shots), Damage()
    sums, squares, counts = np.zeros((N, BANDS)), np.zeros((N, BANDS)), np.zeros(N)
    for start, values in _spectra(path, damage):
        middles = start + (np.arange(len(values)) * HOP + WINDOW / 2) / RATE
        shot = np.searchsorted(shots[:, 0], middles, side="right") - 1
        in_shot = (shot >= 0) & (middles < shots[shot, 1])
        np.add.at(sums, shot[in_shot], values[in_shot])
        np.add.at(squares, shot[in_shot], values[in_shot] ** 2)
        np.add.at(counts, shot[in_shot], 1)
        progress(min(float(middles[-1]), float(shots[-1, 1])), float(shots[-1, 1]))
    if damage.places:
        warn(f"{path}: its sound is damaged in {damage.places} place(s); what could be read of it was used")
    number = np.maximum(counts, 1)[:, None]
    mean = np.where(counts[:, None] > 0, sums / number, np.log(FLOOR))
    deviation = np.sqrt(np.maximum(squares / number - (sums / number) ** 2, 0.0))
    return np.concatenate([mean, deviation], axis=1).astype(np.float32)


def silences(path: Path, start: float, end: float) -> list[tuple[float, float]]:
    """Find the parts of a video between two times in which its sound is silent or missing for a second or more, as
    seconds from its first frame. Raise VideoError if the video cannot be read or has no sound."""
    block = HOP / RATE
    loud = [np.array([start - block, end])]  # the starts of all blocks with sound
    for time, samples in takewhile(lambda piece: piece[0] < end, _samples(path, Damage(), start)):
        peaks = np.maximum.reduceat(np.abs(samples), np.arange(0, len(samples), HOP)) if len(samples) else samples
        starts = time + np.flatnonzero(peaks > _SILENT) * block
        loud.append(starts[(starts > start) & (starts < end)])
    times = np.sort(np.concatenate(loud))
    before = np.flatnonzero(np.diff(times) >= _SHORTEST_SILENCE + block)
    return [(float(times[i] + block), float(times[i + 1])) for i in before]


def has_sound(path: Path) -> bool:
    """Return whether a video has sound that can be decoded. Raise VideoError for a video that cannot be read."""
    with open_container(path) as container:
        return _sound_track(path, container) is not None


def _sound_track(path: Path, container: InputContainer) -> AudioStream | None:
    """Return the first sound track that can be decoded, in the program of the video track; None without one."""
    tracks = program_tracks(container, video_stream(path, container))
    return next((t for t in tracks if isinstance(t, AudioStream) and t.codec_context is not None), None)


def _spectra(path: Path, damage: Damage) -> Iterator[tuple[float, Floats]]:
    """Yield blocks of spectrum frames, with the start of each in seconds from the video's first frame."""
    pieces, count, start = list[Floats](), 0, 0.0  # joined once per block to avoid copies
    for time, samples in chain(_samples(path, damage), [(np.inf, np.zeros(0))]):
        is_gap = abs(time - (start + count / RATE)) > _JUMP
        if count and (is_gap or count >= _BLOCK * HOP):
            block = np.concatenate(pieces)
            if len(values := log_mel(block)):
                yield start, values
            rest = block[len(values) * HOP : 0 if is_gap else None]
            pieces, count, start = [rest], len(rest), start + len(values) * HOP / RATE
        if not count:
            start = time
        pieces.append(samples)
        count += len(samples)


def _samples(path: Path, damage: Damage, since: float = 0.0) -> Iterator[tuple[float, Floats]]:
    """Yield pieces of sound, mono at RATE, each with its start in seconds, from ``since`` or earlier on."""
    with open_container(path) as container:
        stream, first = _sound_track(path, container), 0.0
        if stream is None:
            raise VideoError(f"{path}: has no sound")
        layout_of(stream.codec_context)  # replaces a layout that would crash the decoder
        with suppress(VideoError):
            first = first_frame_time(path)
        if since > _PREROLL and container.format.name.startswith(INDEXED):
            with suppress(av.FFmpegError):  # it cannot seek: all is read
                container.seek(round((first + since - _PREROLL) * av.time_base))
        resampler, kind, expected, offset = av.AudioResampler("fltp", "mono", RATE), None, 0.0, -first

        def resampled(frame: AudioFrame | None) -> Iterator[tuple[float, Floats]]:
            for piece in resampler.resample(frame):
                samples = piece.to_ndarray()[0].astype(np.float64)
                yield expected - len(samples) / RATE if piece.time is None else piece.time + offset, samples

        with damage:  # the container is truncated or damaged here: keep what came before
            for packet in demux(container, stream):
                frames: list[AudioFrame] = []
                with damage:  # a damaged packet: its samples are missing
                    frames = packet.decode()
                for frame in frames:
                    time = expected if frame.time is None else frame.time + offset
                    back = expected - time if kind and expected - time > CLOCK_NOISE else 0.0  # as in joined recordings
                    new_kind = frame.format.name, frame.layout.name, frame.sample_rate
                    if back or kind not in (None, new_kind):  # a resampler accepts one kind of sound
                        yield from resampled(None)
                        resampler = av.AudioResampler("fltp", "mono", RATE)
                    kind, time, offset = new_kind, time + back, offset + back
                    expected = time + frame.samples / frame.sample_rate
                    yield from resampled(frame)
            yield from resampled(None)
