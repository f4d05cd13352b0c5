"""What each shot encoder and each network costs on this machine: parameters, operations, speed and memory.

    python benchmarks/costs.py [--device cpu] [--seconds 3]

Each row is measured in a process of its own, in evaluation mode and float32 (the built-in encoder in its integers),
with the threads that the process would use. Operations are those that PyTorch's flop counter knows, two for each
multiplication and addition of matrices and convolutions. An encoder gets images, three of which make a shot; a network
the features of a video with 1,200 shots. Memory on a CPU is the peak of the process minus what importing PyTorch
takes, on a GPU what CUDA allocated. Weights are random: they change none of this.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from measure import command_line, save

ENCODERS = {
    "efficientnet_lite0": 160,
    "resnet18": 224,
    "resnet50": 224,
    "resnet101": 224,
    "timm:vit_small_patch16_224": 224,
}
NETWORKS = {"transformer": 2048, "mlp": 2048, "ms-lstm": 2048, "relational": 1280}  # with the width of their features
IMAGES, SHOTS = 16, 1200


def repeat(work: Callable[[], object], seconds: float, synchronize: Callable[[], object]) -> float:
    """Return calls per second, after one that is not counted."""
    work()
    synchronize()
    start, calls = time.perf_counter(), 0
    while calls < 2 or time.perf_counter() - start < seconds:
        work()
        calls += 1
    synchronize()
    return calls / (time.perf_counter() - start)


def measure_one(name: str, device_name: str, seconds: float) -> dict[str, Any]:
    """Return the figures of one encoder or network, in this process."""
    import resource

    import numpy as np
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from pipelines.models.encoder_loading import load_encoder
    from pipelines.models.encoders.torch_encoders import choose_device, trainable_encoder
    from pipelines.models.networks.kinds import NETWORKS as KINDS, make_shape
    from pipelines.models.networks.torch_networks import LOGITS, build_network

    device = choose_device(device_name)
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rng = np.random.default_rng(0)
    parameters: int | None = None
    flops: int | None = None
    if name == "efficientnet_lite0":
        encoder, images = load_encoder(name, "cpu"), rng.integers(0, 256, (IMAGES, 160, 160, 3)).astype(np.uint8)

        def work() -> object:
            return encoder.features(images)

        per_call = IMAGES / 3
        import timm

        original = timm.create_model("efficientnet_lite0", num_classes=0)
        parameters = sum(p.numel() for p in original.parameters())
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            original.eval()(torch.zeros(1, 3, 160, 160))
        flops, where = 3 * counter.get_total_flops(), "cpu, integers"
    elif name in ENCODERS:
        network = trainable_encoder(name, pretrained=False, size=ENCODERS[name]).network.to(device).eval()
        batch = torch.zeros(IMAGES, 3, ENCODERS[name], ENCODERS[name], device=device)
        parameters = sum(p.numel() for p in network.parameters())
        with torch.inference_mode():
            with FlopCounterMode(display=False) as counter:
                network(batch[:1])
            flops, per_call, where = 3 * counter.get_total_flops(), IMAGES / 3, device.type

        def work() -> object:
            with torch.inference_mode():
                return network(batch)
    else:
        shape = make_shape(name, NETWORKS[name])
        network = build_network(name, shape).to(device if name != "relational" else "cpu").eval()
        parameters = sum(p.numel() for p in network.parameters())
        features = rng.normal(size=(SHOTS, NETWORKS[name])).astype(np.float32)
        if name == "relational":
            from pipelines.models.networks.relational import shot_tokens

            tokens = shot_tokens(features, np.full(SHOTS, 4.0), None)
            work, where = (lambda: network.token_logits(tokens)), "cpu"
        else:
            logits = LOGITS[KINDS[name].reads]
            work, where = (lambda: logits(network, shape, features)), device.type
        with FlopCounterMode(display=False) as counter:
            work()
        flops, per_call = counter.get_total_flops() // SHOTS, SHOTS
    speed = per_call * repeat(work, seconds, torch.cuda.synchronize if device.type == "cuda" else lambda: None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before
    memory = torch.cuda.max_memory_allocated() / 2**20 if where == "cuda" else peak / 2**10
    return {"on": where, "parameters": parameters, "flops": flops, "shots_per_second": speed, "mebibytes": memory}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command_line(__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each row")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measure_one(options.one, options.device, options.seconds)))
        return
    rows = {}
    print(f"{'':28}{'on':>15}{'parameters':>13}{'GFLOPs a shot':>15}{'shots a second':>16}{'MiB':>7}")
    for name in [*ENCODERS, *NETWORKS]:
        words = [sys.executable, __file__, "--one", name, "--device", options.device, "--seconds", str(options.seconds)]
        rows[name] = row = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        speed, gflops = row["shots_per_second"], row["flops"] / 1e9
        print(
            f"{name:28}{row['on']:>15}{row['parameters']:>13,}{gflops:>15.4f}{speed:>16,.1f}{row['mebibytes']:>7,.0f}",
            flush=True,
        )
    save("costs", rows)


if __name__ == "__main__":
    main()
