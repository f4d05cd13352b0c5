"""What pre-training learns from: pseudo-boundaries and the pretext tasks (paper, section 3)."""
