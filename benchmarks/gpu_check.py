"""What a GPU does with this code, in eight minutes at most: speed and memory of training and encoding, and its numbers.

    make gpu-check
    python benchmarks/gpu_check.py --device cpu      # every part at small sizes, to try the check itself

Prints all figures and writes them to ``benchmarks/results/gpu_check.json``. Without a GPU only what needs none is run.
Data are generated. A part that fails is named, the others still run, and the exit code is 1.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import command_line, make_index, save
from pretrain import make_settings, measure_sources
from torch import nn
from torchvision.io import decode_jpeg
from torchvision.models import resnet50
from torchvision.transforms import v2

import bassl
from pipelines.datasets.movienet import KeyframeReader
from pipelines.processes import cores
from pipelines.stores.index import read_index
from pipelines.training.run_folder import LOG, read_log
from tests.stages import test_golden_curves as golden

TYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
SCORE_BOUND = 0.01  # how far a score may differ between devices
STEPS = {"cuda": 20, "cpu": 2}
# Of pre-training: the paper's share of one of 16 GPUs; small sizes try the check.
SIZES = {
    "cuda": {"encoder": "resnet50", "size": 224, "batch": 16, "neighbors": 8},
    "cpu": {"encoder": "timm:test_resnet", "size": 32, "batch": 4, "neighbors": 2},
}


def two_processes(device: str) -> dict[str, Any]:
    """Ask for DDP of two processes on one GPU, which is refused in one line."""
    command, one_gpu = [sys.executable, "-m", "bassl_cli", "pretrain", "--gpus", "2"], {"CUDA_VISIBLE_DEVICES": "0"}
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_gpu)
    return {"refused": run.stderr.strip(), "ok": run.returncode == 2 and run.stderr.count("\n") == 1}


def golden_losses(device: str) -> dict[str, Any]:
    """Compare 20 losses with the golden curves; on the device without dropout, whose masks differ between devices."""
    inputs, recorded, figures = golden.write_inputs(Path("golden")), json.loads(golden.GOLDEN.read_text()), {}
    for curve in ("pretrain-shotcol-keyframes", "pretrain-bassl-keyframes", "finetune-transformer-features"):
        runs = {"recorded": recorded[curve], "CPU": golden.train(curve, inputs, Path("cpu"))}
        runs["CPU without dropout"] = golden.train(curve, inputs, Path("exact"), dropout=0.0)
        for name, precision in {"float32": "float32", "TF32": "float32", "bfloat16": "bf16"}.items():
            torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
            torch.backends.cudnn.allow_tf32 = name == "TF32"
            options = {"device": device, "precision": precision, "dropout": 0.0}
            runs[name] = golden.train(curve, inputs, Path(name), **options)
        last = {name: run["loss"][-1] for name, run in runs.items()}
        figures[curve] = last | {"ok": np.allclose(runs["CPU"]["loss"], recorded[curve]["loss"], rtol=1e-3)}
    return figures | {"ok": all(losses["ok"] for losses in figures.values())}


def pretraining(device: str) -> dict[str, Any]:
    """Measure a step on resident tensors and with the loader; then make a short run, for the parts that follow."""
    make_index(Path())
    settings = make_settings(Path("index.h5"), device=device, workers=cores(), **SIZES[device])
    images, figures = 2 * settings.neighbors + 3, {}  # of a window, in the dense and the slow sequence
    for row in measure_sources(settings, device, list(TYPES), STEPS[device]):
        name = f"{row.pop('precision')}, {row.pop('data')}"
        figures[name] = {"images/s": images * row["windows a second"], **row}
    bassl.pretrain(settings, output="pretrain", epochs=1, validate_epochs=0)
    return figures


def encoding(device: str) -> dict[str, Any]:
    """Encode all shots, and JPEG files of some in a plain loop with torchvision's ResNet-50."""
    reader, figures = KeyframeReader(read_index(Path("index.h5"))), {}
    every = np.arange(reader.index.keyframes)[None]
    jpegs = [jpeg for row in range(20 * STEPS[device]) for jpeg in reader.read(np.array([row]), every)[0]]
    network, prepare = resnet50().to(device).eval(), v2.Compose([v2.Resize(256), v2.CenterCrop(224)])
    for name, dtype in TYPES.items():
        begun, precision = time.perf_counter(), str(dtype).partition(".")[2]
        bassl.encode_shots(encoder="pretrain", index="index.h5", output=name, device=device, precision=precision)
        ours = len(reader.index.label) * every.size / (time.perf_counter() - begun)
        begun = time.perf_counter()
        with torch.inference_mode(), torch.autocast(device, dtype, name == "bf16"), ThreadPoolExecutor(cores()) as pool:
            for start in range(0, len(jpegs), 64):
                files = (torch.frombuffer(bytearray(jpeg), dtype=torch.uint8) for jpeg in jpegs[start : start + 64])
                images = torch.stack(list(pool.map(lambda file: prepare(decode_jpeg(file)), files)))
                network(images.to(device).float() / 255).cpu()
        figures[name] = {"images/s": ours, "plain loop": len(jpegs) / (time.perf_counter() - begun)}
    return figures


def finetuning(device: str) -> dict[str, Any]:
    """Fine-tune a transformer, and one of the same size in a plain loop on a resident batch."""
    figures, layer = {}, nn.TransformerEncoderLayer(768, 8, 3072, batch_first=True)
    network = nn.Sequential(nn.Linear(2048, 768), nn.TransformerEncoder(layer, 2), nn.Linear(768, 2)).to(device)
    optimizer, x = torch.optim.Adam(network.parameters(), 1e-5), torch.randn(128, 17, 2048, device=device)
    for name, dtype in TYPES.items():
        options = {"precision": name, "device": device, "batch": len(x), "seeds": 1, "epochs": 10, "log_steps": 1}
        bassl.finetune(index="index.h5", init="pretrain", transfer="encoder", output=f"finetune {name}", **options)
        ours = [row["shots_per_second"] for row in read_log(Path(f"finetune {name}", LOG))]
        begun = time.perf_counter()
        for _ in range(STEPS[device]):
            optimizer.zero_grad()
            with torch.autocast(device, dtype, name == "bf16"):
                loss = network(x)[:, 8].float().logsumexp(1).mean()
            loss.backward()
            optimizer.step()
        loss.item()  # waits for the device
        plain = len(x) * STEPS[device] / (time.perf_counter() - begun)
        figures[name] = {"windows/s": float(np.median(ours)), "plain loop": plain}
    return figures


def prediction(device: str) -> dict[str, Any]:
    results = [bassl.predict("videos/0.mp4", model="finetune float32", device=place) for place in ("cpu", device)]
    difference = max(abs(one.score - other.score) for one, other in zip(*(r.shots for r in results), strict=True))
    return {"largest difference of a score": difference, "bound": SCORE_BOUND, "ok": difference <= SCORE_BOUND}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"))
    device = parser.parse_args().device
    parts = [pretraining, encoding, finetuning, prediction, two_processes, golden_losses]
    if device is None and not torch.cuda.is_available():
        print("There is no GPU here: speed, memory and predictions on one were not measured.")
        del parts[:-2]
    device, results = device or ("cuda" if torch.cuda.is_available() else "cpu"), {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for part in parts:
            try:
                results[part.__name__] = part(device)
            except Exception as error:  # the other parts are still worth their figures
                results[part.__name__] = {"failed": repr(error), "ok": False}
            print(part.__name__, json.dumps(results[part.__name__], indent=1), flush=True)
    save("gpu_check", {"device": torch.cuda.get_device_name() if device == "cuda" else device, **results})
    sys.exit(not all(figures.get("ok", True) for figures in results.values()))


if __name__ == "__main__":
    main()
