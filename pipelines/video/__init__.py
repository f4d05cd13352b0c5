"""Films: decoding, shots, keyframes, cutting."""

READ_FILM = "pipelines.video.film_child:send_film"
"""The function that a `FilmProcess` runs, by name, so that its parent process need not import the decoder."""
