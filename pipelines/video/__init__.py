"""Videos: decoding, shots, keyframes, cutting."""

READ_VIDEO = "pipelines.video.reader:send_video"
"""The function that a `VideoProcess` runs, by name: its parent process need not import the decoder."""
