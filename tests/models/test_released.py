"""Checkpoints of the paper's authors: complete import, and no code in them is ever run."""

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

import pytest
import torch
import torchvision
from torch import Tensor, nn

from pipelines.errors import StoreError
from pipelines.models.bassl import BasslSettings, BasslWeights, read_checkpoint, save_bassl_model
from pipelines.models.networks import CRNSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork, with_weights
from tests.released_layout import crn_forward, head_tensors, released_state, save
from tests.small_stores import damaged, refusal


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


@pytest.mark.parametrize(("neighbors", "finetuned"), [(1, False), (2, True), (8, False)])
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


def test_every_head_is_imported_under_its_own_name_and_the_msm_bias_under_either(tmp_path: Path) -> None:
    expected = {name.removeprefix("loss."): tensor for name, tensor in head_tensors(False).items()}
    del expected["head_msm.predictions.bias"]  # the second name of decoder.bias
    for left_out in ("loss.head_msm.predictions.bias", "loss.head_msm.predictions.decoder.bias", None):
        state = {name: tensor for name, tensor in released_state().items() if name != left_out}
        weights = read_checkpoint(save(tmp_path / "one.ckpt", state))
        assert weights.head_names == ["head_cgm", "head_msm", "head_nce", "head_pp"]
        assert weights.heads.keys() == expected.keys()
        assert all(torch.equal(weights.heads[name], tensor) for name, tensor in expected.items())


def test_weights_alone_are_imported_as_well(tmp_path: Path, small: Path) -> None:
    torch.save(released_state(), tmp_path / "alone.ckpt")
    assert same(read_checkpoint(tmp_path / "alone.ckpt"), read_checkpoint(small))


def test_a_checkpoint_with_its_resnet_is_imported_also_without_a_crn(tmp_path: Path, resnet: nn.Module) -> None:
    """Three of the published checkpoints (SimCLR) have no CRN."""
    state = released_state(encoder=resnet.state_dict(), D_e=2048)
    simclr = {name: tensor for name, tensor in state.items() if name.startswith(("shot_encoder.", "loss.head_nce."))}
    weights = read_checkpoint(save(tmp_path / "simclr.ckpt", simclr))
    assert weights.settings == BasslSettings("resnet50", None)
    assert weights.head_names == ["head_nce"]
    weights = read_checkpoint(save(tmp_path / "theirs.ckpt", state))
    assert weights.settings.encoder == "resnet50"
    assert weights.settings.crn is not None
    network = torchvision.models.resnet50()
    network.fc = nn.Identity()
    network.load_state_dict(weights.encoder)
    pictures = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(network.eval()(pictures), resnet(pictures))


def test_the_weights_of_a_resnet50_such_as_places365s_are_imported(tmp_path: Path, resnet: nn.Module) -> None:
    """As its authors wrote it: before torch's zip files, and from several GPUs."""
    state = {f"module.{name}": tensor for name, tensor in resnet.state_dict().items() if "num_batches" not in name}
    state |= {"module.fc.weight": torch.ones(365, 2048), "module.fc.bias": torch.ones(365)}
    content = {"epoch": 90, "arch": "resnet50", "state_dict": state, "best_prec1": torch.tensor(54.7)}
    torch.save(content, tmp_path / "places.pth.tar", _use_new_zipfile_serialization=False)
    weights = read_checkpoint(tmp_path / "places.pth.tar")
    assert weights.settings == BasslSettings("resnet50", None)
    expected = resnet.state_dict()
    assert weights.encoder.keys() == expected.keys()
    assert all(
        torch.equal(tensor, expected[name]) for name, tensor in weights.encoder.items() if "num_batches" not in name
    )


def test_weights_become_independent_tensors_of_single_precision(tmp_path: Path) -> None:
    state = released_state()
    halved = {name: t.half() if t.is_floating_point() else t for name, t in state.items()}
    expected = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in halved.items()}
    view, parameter = "crn.encoder.layer.0.intermediate.dense.weight", "crn.shot_embedding.shot_embedding.weight"
    halved[view] = torch.cat([halved[view].T, torch.zeros(16, 3).half()], dim=1).T[:40]
    halved[parameter] = nn.Parameter(halved[parameter])
    weights = read_checkpoint(save(tmp_path / "half.ckpt", halved))
    assert same(weights, read_checkpoint(save(tmp_path / "plain.ckpt", expected)))
    for tensor in weights.crn.values():
        assert (type(tensor), tensor.dtype, tensor.is_contiguous()) == (Tensor, torch.float32, True)
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


# --- malice -----------------------------------------------------------------------------------------------------------

RAN = "ran"


class Evil:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


EVILS = {
    "a function": Evil(os.system, f"touch {RAN}"),
    "eval": Evil(eval, f"open({RAN!r}, 'w').close()"),
    "a builtin": Evil(getattr, Path(RAN), "touch"),
    "an iterator": Evil(map, os.mkdir, [RAN]),
    "a class": Evil(subprocess.Popen, ["touch", RAN]),
    "a new class": Evil(type, "Made", (), {}),
    "a pickle in it": Evil(pickle.loads, pickle.dumps(Evil(os.system, f"touch {RAN}"))),
    "torch": Evil(torch.load, RAN),
    "a module": Evil(nn.Linear, 2, 2),
}


@pytest.mark.parametrize(
    ("name", "place"),
    [*((name, "inside") for name in EVILS), *(("a function", place) for place in ("beside", "instead", "root"))],
)
def test_a_call_in_a_pickle_is_refused_without_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path, evil = tmp_path / "evil.ckpt", EVILS[name]
    if place == "inside":
        save(path, {**released_state(), "loss.head_pp.bias": evil})
    elif place == "beside":
        save(path, released_state(), callbacks=evil)
    elif place == "instead":
        save(path, evil)
    else:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # torch would then run anything by default
        torch.save(evil, path)
    message = fault(path)
    assert "would run code (" in message
    assert "trust" in message
    assert not Path(RAN).exists()


def forged(path: Path, source: Path, program: bytes) -> Path:
    """The checkpoint ``source`` with another program in place of its pickle."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            content = program if entry.filename.endswith("/data.pkl") else old.read(entry)
            new.writestr(zipfile.ZipInfo(entry.filename), content)
    return path


COMMAND = b"touch " + RAN.encode()
STATE = b"\x80\x02}X\x0a\x00\x00\x00state_dict"  # protocol 2, a dictionary, a key; a value, `s` and `.` are to follow
PROGRAMS: dict[str, bytes] = {
    "reduce": b"\x80\x02cos\nsystem\nX\x09\x00\x00\x00" + COMMAND + b"\x85R.",
    "inst": b"(S'" + COMMAND + b"'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'" + COMMAND + b"'\no.",
    "stack-global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x09" + COMMAND + b"\x85R.",
    "extension": b"\x80\x02\x82\x01.",
    "python-2-eval": b"\x80\x02c__builtin__\neval\nX\x09\x00\x00\x00" + COMMAND + b"\x85R.",
    "stand-in-called": b"\x80\x02comegaconf\nos.system\nX\x09\x00\x00\x00" + COMMAND + b"\x85R.",
    "items": b"\x80\x02comegaconf\nx\n)R}X\x05\x00\x00\x00itemsccollections\nOrderedDict\nsb.",
    "state-with-items": STATE + b"ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsccollections\nOrderedDict\nsbs.",
    "class-as-state": STATE + b"comegaconf\nx\ns.",
    "number-as-name": STATE + b"}(K\x01K\x02us.",
    "class-as-name": STATE + b"}(comegaconf\nx\nK\x02us.",
    "counter": STATE + b"ccollections\nCounter\n)Rs.",
    "state-on-a-class": b"\x80\x02comegaconf\nx\n}X\x08\x00\x00\x00__init__K\x01sb.",
    "tensor-of-a-stand-in": b"\x80\x02ctorch\nTensor\ncomegaconf\nx\n\x85R.",
    "path": b"\x80\x02c../../os\nsystem\n)R.",
    "escapes": b"\x80\x02cos \nsystem\r\x1b[31m\n)R.",
    "deep": b"\x80\x02" + b"(" * 20_000 + b".",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
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
    for _ in range(60):
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
    assert refused > 36


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_file_is_refused_or_read_unchanged(tmp_path: Path, small: Path) -> None:
    content, whole, path = small.read_bytes(), read_checkpoint(small), tmp_path / "damaged.ckpt"
    weight = content.index(released_state()["loss.head_cgm.weight"].numpy().tobytes())
    changes = [
        *damaged(content, flips=120, cuts=20),
        ("another weight", content[:weight] + b"?" + content[weight + 1 :]),
    ]
    refused = []
    for what, change in changes:
        path.write_bytes(change)
        try:
            assert same(read_checkpoint(path), whole), what
        except StoreError:
            refused.append(what)
    assert len(refused) > 100
    assert refused[:20] == [what for what, _ in changes[:20]]
    assert refused[-1] == "another weight"


def archive_of(path: Path, source: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(source, "small.ckpt")


def packed(path: Path, _: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))


OTHER_KINDS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "missing": (lambda path, small: None, "no such file"),
    "a folder": (lambda path, small: path.mkdir(), "is not a file"),
    "text": (
        lambda path, small: path.write_text("in the other folder\n" * 50),
        "not a checkpoint that PyTorch can read",
    ),
    "tar.gz": (archive_of, "unpack it if it is an archive"),
    "packed zip": (packed, "not a checkpoint that PyTorch can read"),
    "a tensor": (lambda path, small: torch.save(torch.zeros(3), path), "no weights by name"),
    "ours": (lambda path, small: save_bassl_model(path, read_checkpoint(small)), "not a checkpoint that PyTorch"),
}


@pytest.mark.parametrize(("put", "words"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_files_of_other_kinds_are_refused(
    tmp_path: Path, small: Path, put: Callable[[Path, Path], object], words: str
) -> None:
    put(tmp_path / "other.ckpt", small)
    assert words in fault(tmp_path / "other.ckpt")
