"""How ``pipelines/models/data/efficientnet_lite0.onnx`` is made: EfficientNet-Lite0 in integers, for ONNX Runtime.

python -m recipes.onnx_encoder pipelines/models/data/efficientnet_lite0.onnx
pytest tests/recipes/test_onnx_encoder.py -m ''      # compares the file with the original network
"""
