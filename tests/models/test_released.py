"""Checkpoints of the paper's authors: complete import, and no code in them is ever run."""

import builtins
import io
import os
import pickle
import random
import subprocess
import sys
import tarfile
import types
import zipfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn

from pipelines.errors import StoreError
from pipelines.models.bassl import BasslSettings, BasslWeights, read_checkpoint, save_bassl_model
from pipelines.models.networks import CRNSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork, with_weights
from tests.released_layout import crn_forward, head_tensors, released_state, save
from tests.small_stores import refusal


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A pre-trained checkpoint without its encoder."""
    return save(tmp_path / "small.ckpt", released_state())


@pytest.fixture(scope="session")
def resnet() -> nn.Module:
    """torchvision's ResNet-50 without its classifier, with other statistics than a new one."""
    torch.manual_seed(0)
    network = torchvision.models.resnet50()
    network.fc = nn.Identity()
    for name, buffer in network.named_buffers():
        buffer.copy_(torch.tensor(63_000) if name.endswith("tracked") else 0.5 + torch.rand(buffer.shape))
    return network.eval()


def fault(path: Path) -> str:
    return refusal(lambda: read_checkpoint(path), path)


def same(one: BasslWeights, two: BasslWeights) -> bool:
    def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
        return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)

    parts = ("encoder", "crn", "heads")
    return one.settings == two.settings and all(equal(getattr(one, part), getattr(two, part)) for part in parts)


# --- theirs into ours -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finetuned", [False, True])
@pytest.mark.parametrize("neighbors", [1, 2, 8])
def test_an_imported_model_computes_the_outputs_of_the_checkpoint(
    tmp_path: Path, neighbors: int, finetuned: bool
) -> None:
    state = released_state(neighbors, finetuned=finetuned)
    weights = read_checkpoint(save(tmp_path / "theirs.ckpt", state))
    assert weights.settings.crn == CRNSettings(neighbors, 24, 16, 2, 8, 40, 0.1)
    assert weights.finetuned == finetuned

    crn = with_weights(partial(ContextualRelationNetwork, weights.settings.crn), weights.crn).eval()
    shots = torch.randn(3, 2 * neighbors + 1, 24, generator=torch.Generator().manual_seed(6))
    mask = torch.zeros(3, 2 * neighbors + 1, dtype=torch.bool)
    mask[1, 0] = mask[2, -1] = True
    theirs = {name.removeprefix("crn."): tensor for name, tensor in state.items()}
    for hidden in (None, mask):
        contextualized, cls = crn(shots, hidden)
        expected = crn_forward(theirs, shots, hidden)
        torch.testing.assert_close(torch.cat([cls[:, None], contextualized], dim=1), expected, rtol=1e-4, atol=1e-4)
    head, name = ("head_sbd", "head_sbd") if finetuned else ("head_pp", "loss.head_pp")
    ours = nn.functional.linear(
        crn(shots)[0][:, neighbors], weights.heads[f"{head}.weight"], weights.heads[f"{head}.bias"]
    )
    center = crn_forward(theirs, shots)[:, neighbors + 1]
    torch.testing.assert_close(ours, center @ state[f"{name}.weight"].T + state[f"{name}.bias"], rtol=1e-4, atol=1e-4)


def test_every_head_is_imported_under_its_own_name(small: Path) -> None:
    weights = read_checkpoint(small)
    assert weights.head_names == ["head_cgm", "head_msm", "head_nce", "head_pp"]
    expected = {name.removeprefix("loss."): tensor for name, tensor in head_tensors(False).items()}
    del expected["head_msm.predictions.bias"]  # the second name of decoder.bias
    assert weights.heads.keys() == expected.keys()
    assert all(torch.equal(weights.heads[name], tensor) for name, tensor in expected.items())


def test_the_msm_bias_may_have_either_name(tmp_path: Path) -> None:
    bias = released_state()["loss.head_msm.predictions.bias"]
    for name in ("loss.head_msm.predictions.bias", "loss.head_msm.predictions.decoder.bias"):
        one = released_state()
        del one[name]
        weights = read_checkpoint(save(tmp_path / "one.ckpt", one))
        assert torch.equal(weights.heads["head_msm.predictions.decoder.bias"], bias)


@pytest.mark.parametrize("as_zip", [True, False])
def test_weights_alone_are_imported_as_well(tmp_path: Path, small: Path, as_zip: bool) -> None:
    torch.save(released_state(), tmp_path / "alone.ckpt", _use_new_zipfile_serialization=as_zip)
    assert same(read_checkpoint(tmp_path / "alone.ckpt"), read_checkpoint(small))


def test_a_subset_of_heads_without_buffers_is_imported(tmp_path: Path) -> None:
    state = released_state()
    for name in list(state):
        if name.startswith(("loss.head_cgm", "loss.head_msm", "loss.head_nce")) or name.endswith("_ids"):
            del state[name]
    del state["crn.attention_mask"]
    assert read_checkpoint(save(tmp_path / "pp.ckpt", state)).head_names == ["head_pp"]


def test_a_checkpoint_with_its_resnet_is_imported(tmp_path: Path, resnet: nn.Module) -> None:
    state = released_state(encoder=resnet.state_dict(), D_e=2048)
    weights = read_checkpoint(save(tmp_path / "theirs.ckpt", state))
    assert weights.settings.encoder == "resnet50"
    network = torchvision.models.resnet50()
    network.fc = nn.Identity()
    network.load_state_dict(weights.encoder)
    pictures = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(network.eval()(pictures), resnet(pictures))


def test_a_checkpoint_without_a_crn_is_imported(tmp_path: Path, resnet: nn.Module) -> None:
    """Three of the published checkpoints (SimCLR) have no CRN."""
    state = released_state(encoder=resnet.state_dict(), D_e=2048)
    for name in list(state):
        if not name.startswith(("shot_encoder.", "loss.head_nce.")):
            del state[name]
        elif state[name].is_floating_point():
            state[name] = state[name].half()  # a smaller file
    weights = read_checkpoint(save(tmp_path / "simclr.ckpt", state))
    assert weights.settings == BasslSettings("resnet50", None)
    assert weights.head_names == ["head_nce"]
    assert len(weights.encoder) == len(resnet.state_dict())


def test_a_partial_encoder_is_refused(tmp_path: Path) -> None:
    state = released_state(D_e=2048)
    state["shot_encoder.conv1.weight"] = torch.zeros(64, 3, 7, 7)
    state["shot_encoder.layer1.0.conv1.weight"] = torch.zeros(1)
    state["shot_encoder.fc.bias"] = torch.zeros(1)
    message = fault(save(tmp_path / "broken.ckpt", state))
    assert 'Missing key(s) in state_dict: "bn1.weight", "bn1.bias"' in message


def test_half_precision_weights_become_single_precision(tmp_path: Path) -> None:
    state = released_state()
    halved = {name: t.half() if t.is_floating_point() else t for name, t in state.items()}
    weights = read_checkpoint(save(tmp_path / "half.ckpt", halved))
    for name, tensor in weights.crn.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, state[f"crn.{name}"].half().float())


def test_parameters_and_views_become_independent_tensors(tmp_path: Path) -> None:
    state = released_state()
    expected = read_checkpoint(save(tmp_path / "plain.ckpt", state))
    name = "crn.encoder.layer.0.intermediate.dense.weight"
    state[name] = torch.cat([state[name].T, torch.zeros(16, 3)], dim=1).T[:40]
    state["crn.shot_embedding.shot_embedding.weight"] = nn.Parameter(state["crn.shot_embedding.shot_embedding.weight"])
    weights = read_checkpoint(save(tmp_path / "odd.ckpt", state))
    assert same(weights, expected)
    for tensor in weights.crn.values():
        assert type(tensor) is Tensor
        assert tensor.is_contiguous()
        assert not tensor.requires_grad


# --- weights that are not in the layout -------------------------------------------------------------------------------

CRN, EMBEDDING = "crn.encoder.layer", "crn.shot_embedding"
KEY, PLACES = f"{CRN}.1.attention.self.key.bias", f"{EMBEDDING}.position_embedding.weight"
MASKS, BIAS = f"{EMBEDDING}.mask_embedding.weight", f"{CRN}.1.output.dense.bias"

Change = Callable[[dict[str, Tensor]], object]
WRONG: dict[str, Change] = {
    'Missing key(s) in state_dict: "encoder.layer.1.attention.self.key.bias"': lambda s: s.pop(KEY),
    "crn has no matrices": lambda s: s.pop(PLACES),
    "crn has no matrices shot_embedding": lambda s: s.update({MASKS: torch.ones(24)}),
    "position_embedding.weight: copying a param with shape": lambda s: s.update({PLACES: torch.ones(7, 16)}),
    "not the shape of a network": lambda s: s.update({PLACES: torch.ones(2, 16)}),
    "a width of 20 cannot be shared": lambda s: s.update({PLACES: torch.ones(6, 20)}),
    'Unexpected key(s) in state_dict: "more.bias"': lambda s: s.update({"crn.more.bias": torch.ones(1)}),
    "metric.total does not belong there": lambda s: s.update({"metric.total": torch.ones(1)}),
    "Only Tensors of floating point": lambda s: s.update({BIAS: torch.ones(16, dtype=torch.int64)}),
    "'loss.head_pp.bias' among its weights": lambda s: s["loss.head_pp.bias"].fill_(torch.inf),
    "no loss.head_* or head_sbd": lambda s: [s.pop(name) for name in list(s) if "head" in name],
    "neither shot_encoder.* nor crn.*": lambda s: [s.pop(name) for name in list(s) if name.startswith("crn.")],
    "loading state_dict for ResNet": lambda s: s.update({"shot_encoder.conv1.weight": torch.zeros(64, 3, 7, 7)}),
    "or neither": lambda s: s.clear(),
}


@pytest.mark.parametrize("words", WRONG)
def test_weights_in_another_layout_are_refused_by_name(tmp_path: Path, words: str) -> None:
    state = dict(released_state())
    WRONG[words](state)
    message = fault(save(tmp_path / "wrong.ckpt", state))
    assert words in message
    assert len(message) < 800


# --- what the trainer leaves beside the weights -----------------------------------------------------------------------


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """Classes with the names of the release's trainer; forgotten when the checkpoint is written."""

    def define(module: str, name: str, *bases: type) -> type:
        parts = module.split(".")
        for i in range(1, len(parts) + 1):
            name_so_far = ".".join(parts[:i])
            if name_so_far not in sys.modules:
                monkeypatch.setitem(sys.modules, name_so_far, types.ModuleType(name_so_far))
        instance = type(name, bases, {"__module__": module})
        setattr(sys.modules[module], name, instance)
        return instance

    of_python_3_13 = getattr(sys.modules.get("pathlib._local"), "PosixPath", None)
    return types.SimpleNamespace(
        path=of_python_3_13 or define("pathlib._local", "PosixPath"),
        checkpointing=define("pytorch_lightning.callbacks.model_checkpoint", "ModelCheckpoint"),
        monitor=define("pytorch_lightning.callbacks.gpu_stats_monitor", "GPUStatsMonitor"),
        settings=define("omegaconf.dictconfig", "DictConfig"),
        easy=define("easydict", "EasyDict", dict),
        forget=monkeypatch.undo,
    )


def test_callbacks_and_trainer_settings_are_ignored_and_their_packages_not_imported(
    tmp_path: Path, trainer: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = released_state()
    state._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]  # as of every module
    config = trainer.settings()
    config.__dict__.update(_content={"K": 8}, _metadata=int, _parent=None)
    easy = trainer.easy(EXPR_NAME="bassl", MODEL=trainer.easy(depth=50))
    easy.__dict__.update(easy)
    path = save(
        tmp_path / "full.ckpt",
        state,
        **{"pytorch-lightning_version": "1.3.8"},
        callbacks={
            trainer.checkpointing: {"best_model_score": torch.tensor(0.4), "dirpath": "ckpt"},
            trainer.monitor: {},
        },
        hyper_parameters=config,
        cfg=easy,
        paths=[Path("ckpt"), trainer.path()],
        counts=defaultdict(list, {"a": [1, 2]}),
        optimizer_states=[{"state": {0: {"momentum_buffer": torch.zeros(4)}}, "param_groups": [{"lr": 0.3}]}],
    )
    trainer.forget()
    assert "omegaconf" not in sys.modules
    (tmp_path / "omegaconf.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    allowed = set(torch.serialization.get_safe_globals())
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)  # why more than that is needed
    assert same(read_checkpoint(path), read_checkpoint(save(tmp_path / "bare.ckpt", released_state())))
    assert not {"omegaconf", "pytorch_lightning", "easydict"} & set(sys.modules)
    assert set(torch.serialization.get_safe_globals()) == allowed


def test_a_trainer_object_in_place_of_a_weight_is_refused(tmp_path: Path, trainer: types.SimpleNamespace) -> None:
    state: dict[str, object] = dict(released_state())
    state["loss.head_pp.weight"] = trainer.settings()
    save(tmp_path / "a.ckpt", state)
    save(tmp_path / "b.ckpt", trainer.settings())
    save(tmp_path / "c.ckpt", [trainer.settings()])
    torch.save(trainer.settings(), tmp_path / "d.ckpt")
    trainer.forget()
    assert "'loss.head_pp.weight' among its weights is not a tensor" in fault(tmp_path / "a.ckpt")
    assert "no loss.head_*" in fault(tmp_path / "b.ckpt")
    assert "no weights by name" in fault(tmp_path / "c.ckpt")
    assert "no loss.head_*" in fault(tmp_path / "d.ckpt")


# --- malice -----------------------------------------------------------------------------------------------------------

RAN = "ran"


class Evil:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


def evils() -> dict[str, Evil]:
    python = f"open({RAN!r}, 'w').close()"
    return {
        "os.system": Evil(os.system, f"touch {RAN}"),
        "eval": Evil(eval, python),
        "exec": Evil(exec, python),
        "open": Evil(open, RAN, "w"),
        "__import__": Evil(builtins.__import__, "antigravity"),
        "getattr": Evil(getattr, Path(RAN), "touch"),
        "Popen": Evil(subprocess.Popen, ["touch", RAN]),
        "pickle.loads": Evil(pickle.loads, pickle.dumps(Evil(os.system, f"touch {RAN}"))),
        "map": Evil(map, os.mkdir, [RAN]),
        "torch.load": Evil(torch.load, RAN),
        "torch.hub": Evil(torch.hub.load, ".", "model"),
        "io.open": Evil(io.FileIO, RAN, "w"),
        "type": Evil(type, "Made", (), {}),
        "sys.exit": Evil(sys.exit, 3),
        "module": Evil(nn.Linear, 2, 2),
        "FunctionType": Evil(types.FunctionType, None, {}),
    }


@pytest.mark.parametrize("name", evils())
@pytest.mark.parametrize("place", ["beside", "inside", "instead", "root"])
def test_a_call_in_a_pickle_is_refused_without_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if place == "root":
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # torch would then run anything by default
    evil, path = evils()[name], tmp_path / "evil.ckpt"
    if name == "FunctionType":  # code objects do not pickle; the name alone is enough
        evil.call = (types.SimpleNamespace, ())
    if place == "beside":
        save(path, released_state(), callbacks=evil)
    elif place == "inside":
        save(path, {**released_state(), "loss.head_pp.bias": evil})
    elif place == "instead":
        save(path, evil)
    else:
        torch.save(evil, path)
    message = fault(path)
    assert "would run code (" in message
    assert "trust" in message
    assert not Path(RAN).exists()
    assert "antigravity" not in sys.modules


def forged(path: Path, source: Path, program: bytes) -> Path:
    """The checkpoint ``source`` with another program in place of its pickle."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            content = program if entry.filename.endswith("/data.pkl") else old.read(entry)
            new.writestr(zipfile.ZipInfo(entry.filename), content)
    return path


COMMAND = b"touch " + RAN.encode()
STATE = b"\x80\x02}X\x0a\x00\x00\x00state_dict"  # protocol 2, a dictionary, a key; a value, `s` and `.` are to follow


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(b"\x80\x02cos\nsystem\nX\x09\x00\x00\x00" + COMMAND + b"\x85R.", id="reduce"),
        pytest.param(b"\x80\x02cposix\nsystem\nX\x09\x00\x00\x00" + COMMAND + b"\x85R.", id="posix"),
        pytest.param(b"(S'" + COMMAND + b"'\nios\nsystem\n.", id="inst"),
        pytest.param(b"(cos\nsystem\nS'" + COMMAND + b"'\no.", id="obj"),
        pytest.param(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x09" + COMMAND + b"\x85R.", id="stack-global"),
        pytest.param(b"\x80\x02\x82\x01.", id="extension"),
        pytest.param(b"\x80\x02c__builtin__\neval\nX\x09\x00\x00\x00" + COMMAND + b"\x85R.", id="python-2-eval"),
        pytest.param(b"\x80\x02comegaconf\nos.system\nX\x09\x00\x00\x00" + COMMAND + b"\x85R.", id="stand-in-called"),
        pytest.param(b"\x80\x02comegaconf\nx\n)R}X\x05\x00\x00\x00itemsccollections\nOrderedDict\nsb.", id="items"),
        pytest.param(
            STATE + b"ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsccollections\nOrderedDict\nsbs.",
            id="state-with-items-of-its-own",
        ),
        pytest.param(STATE + b"comegaconf\nx\ns.", id="class-as-state"),
        pytest.param(STATE + b"}(K\x01K\x02us.", id="number-as-name"),
        pytest.param(STATE + b"}(comegaconf\nx\nK\x02us.", id="class-as-name"),
        pytest.param(STATE + b"ccollections\nCounter\n)Rs.", id="counter"),
        pytest.param(b"\x80\x02comegaconf\nx\n}X\x08\x00\x00\x00__init__K\x01sb.", id="state-on-a-class"),
        pytest.param(b"\x80\x02ctorch\nTensor\ncomegaconf\nx\n\x85R.", id="tensor-of-a-stand-in"),
        pytest.param(b"\x80\x02c../../os\nsystem\n)R.", id="path"),
        pytest.param(b"\x80\x02cos \nsystem\r\x1b[31m\n)R.", id="escapes"),
        pytest.param(b"\x80\x02c\n\n)R.", id="no-name"),
        pytest.param(b"\x80\x02" + b"(" * 200_000 + b".", id="deep"),
        pytest.param(b"\x80\x02" + b"]" + b"\x85" * 100_000 + b".", id="nested"),
        pytest.param(b"\x80\x02j\xff\xff\xff\xff.", id="no-such-memo"),
        pytest.param(b"\x80\x02X\xff\xff\xff\xff.", id="long-string"),
        pytest.param(b"\x80\x02" + b"X\x02\x00\x00\x00ab\x85Q.", id="persistent"),
        pytest.param(b"", id="empty"),
        pytest.param(b".", id="stop"),
        pytest.param(b"\xff" * 50, id="noise"),
    ],
)
def test_malicious_pickles_are_refused_without_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Path, program: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    message = fault(forged(tmp_path / "forged.ckpt", small, program))
    assert message.isprintable()
    assert not Path(RAN).exists()


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_malformed_tensors_are_refused(tmp_path: Path) -> None:
    huge = torch.zeros(1).expand(10**12)
    attributed = torch.zeros(2)
    attributed.detach = OrderedDict  # type: ignore[method-assign,assignment]
    odd: list[object] = [
        huge,
        attributed,
        torch.zeros(2).to_sparse(),
        torch.zeros(2, device="meta"),
        torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
        nn.Parameter(torch.zeros(2)).data_ptr(),
        [0.0, 0.0],
        None,
    ]
    for i, value in enumerate(odd):
        state = {**released_state(), "loss.head_pp.bias": value}
        message = fault(save(tmp_path / f"{i}.ckpt", state))
        assert "loss.head_pp.bias" in message or "not a checkpoint that PyTorch" in message


def test_long_or_unprintable_names_are_refused_with_a_clean_message(tmp_path: Path) -> None:
    for i, name in enumerate(("two\nlines", "\x1b[31mred", "long" * 100, 5)):
        message = fault(save(tmp_path / f"{i}.ckpt", {**released_state(), name: torch.ones(1)}))
        assert message.isprintable()
        assert len(message) < 400


def test_arbitrary_pickles_give_only_a_refusal(tmp_path: Path, small: Path) -> None:
    with zipfile.ZipFile(small) as archive:
        program = archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
    chance = random.Random(0)
    refused = 0
    for _ in range(150):
        changed = bytearray(program)
        place = chance.randrange(len(changed))
        if chance.random() < 0.5:
            changed[place] = chance.randrange(256)
        else:
            changed[place:place] = bytes(chance.choice(b"cRbsuet)}](.\x81\x85Q2") for _ in range(3))
        try:
            read_checkpoint(forged(tmp_path / "forged.ckpt", small, bytes(changed)))
        except StoreError:
            refused += 1
    assert refused > 100


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_truncated_file_is_refused(tmp_path: Path, small: Path) -> None:
    content = small.read_bytes()
    part = tmp_path / "part.ckpt"
    sizes = [0, 1, 4, 30, 1000, *random.Random(0).sample(range(len(content)), 30), len(content) - 1]
    for size in sizes:
        part.write_bytes(content[:size])
        assert "not a checkpoint that PyTorch can read, or damaged" in fault(part)


def test_a_flipped_bit_is_refused_or_has_no_effect(tmp_path: Path, small: Path) -> None:
    content, whole = small.read_bytes(), read_checkpoint(small)
    chance = random.Random(1)
    end = content.rindex(b"PK\x01\x02", 0, len(content) - 2000)
    places = chance.sample(range(len(content)), 150) + chance.sample(range(end, len(content)), 150)
    refused = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << chance.randrange(8)
        (tmp_path / "flipped.ckpt").write_bytes(damaged)
        try:
            read = read_checkpoint(tmp_path / "flipped.ckpt")
        except StoreError:
            refused += 1
        else:
            assert same(read, whole)
    assert refused > 100


def test_a_changed_weight_is_detected(tmp_path: Path, small: Path) -> None:
    content = bytearray(small.read_bytes())
    bias = released_state()["loss.head_cgm.weight"].numpy().tobytes()
    content[content.index(bias) + 5] ^= 1
    (tmp_path / "flipped.ckpt").write_bytes(content)
    assert "not a checkpoint that PyTorch can read, or damaged" in fault(tmp_path / "flipped.ckpt")


def tar_of(path: Path, source: Path, mode: Any) -> None:
    with tarfile.open(path, mode) as archive:
        archive.add(source, "small.ckpt")


def zip_of(path: Path, name: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(name, content)


OTHER_KINDS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "missing": (lambda path, small: None, "no such file"),
    "a folder": (lambda path, small: path.mkdir(), "is not a file"),
    "text": (
        lambda path, small: path.write_text("in the other folder\n" * 50),
        "not a checkpoint that PyTorch can read",
    ),
    "tar.gz": (lambda path, small: tar_of(path, small, "w:gz"), "unpack it if it is an archive"),
    "tar": (lambda path, small: tar_of(path, small, "w"), "not a checkpoint that PyTorch can read"),
    "zip of text": (lambda path, small: zip_of(path, "readme.txt", b"hello"), "not a checkpoint that PyTorch can read"),
    "packed zip": (
        lambda path, small: zip_of(path, "archive/data.pkl", bytes(10**6), zipfile.ZIP_DEFLATED),
        "not a checkpoint that PyTorch can read",
    ),
    "zip of it": (
        lambda path, small: zip_of(path, "small.ckpt", small.read_bytes()),
        "not a checkpoint that PyTorch can read",
    ),
    "a tensor": (lambda path, small: torch.save(torch.zeros(3), path), "no weights by name"),
    "ours": (
        lambda path, small: save_bassl_model(path, read_checkpoint(small)),
        "not a checkpoint that PyTorch can read",
    ),
}


@pytest.mark.parametrize(("put", "words"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_files_of_other_kinds_are_refused(
    tmp_path: Path, small: Path, put: Callable[[Path, Path], object], words: str
) -> None:
    put(tmp_path / "other.ckpt", small)
    assert words in fault(tmp_path / "other.ckpt")
