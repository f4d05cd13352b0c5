"""Scene segmentation systems that the BaSSL paper compares with, each reimplemented from its own paper.

Each is one function, in a module of its name, from features and times of one video to a `Segmentation`.
`pipelines.baselines.systems.SYSTEMS` lists them.
"""
