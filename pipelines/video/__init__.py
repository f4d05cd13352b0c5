"""Videos: decoding, shots, keyframes, cutting."""

READ_VIDEO = "pipelines.video.video_child:send_video"
"""The function that a `VideoProcess` runs, by name: its parent process need not import the decoder."""
