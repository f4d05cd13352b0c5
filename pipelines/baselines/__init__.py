"""The systems that the BaSSL paper compares with, each after its own paper.

One function a system, in a module of its name: features and times of one film in, a `Segmentation` out.
`pipelines.baselines.systems.SYSTEMS` lists them.
"""
