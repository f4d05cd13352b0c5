"""How ``pipelines/models/data/efficientnet_lite0.onnx`` is made: EfficientNet-Lite0 in integers, for ONNX Runtime.

python -m recipes.onnx_encoder pipelines/models/data/efficientnet_lite0.onnx
python -m recipes.onnx_encoder.compare FILE.onnx --video big_buck_bunny_252p.mp4
"""
