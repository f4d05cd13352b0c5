"""Cutting videos: clips copied without encoding, clips encoded to the frame, copies with chapters."""
