"""Films: decoding, shots, keyframes, cutting."""

READ_FILM = "pipelines.video.film_child:send_film"
"""What the process of a `FilmProcess` runs; named, for whoever starts it need not import what reads films."""
