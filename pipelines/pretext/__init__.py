"""Self-supervision of BaSSL: pseudo-boundaries, pretext tasks and contrastive losses (paper, section 3)."""
