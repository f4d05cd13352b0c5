"""Videos: decoding, shots, keyframes, cutting."""
