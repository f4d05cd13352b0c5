"""Videos that several tests read: made once, never changed."""

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from pipelines import video_jobs
from pipelines.datasets.synthetic import SyntheticVideo, SyntheticVideoSettings, write_video
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.networks import RelationalSettings
from pipelines.processes import Child
from pipelines.video import shots
from tests import videos
from tests.child_thread import ChildThread
from tests.command import Bassl, running
from tests.dask_cluster import Cluster

# An example may take long on a busy machine, and no test asserts a time.
settings.register_profile("bassl", deadline=None)
settings.load_profile("bassl")

# What is started in the background of a script ignores Ctrl-C, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _start_children(patch: pytest.MonkeyPatch, kind: type[Child]) -> None:
    for module in (shots, video_jobs):
        patch.setattr(module, "Child", kind)


@pytest.fixture(scope="session", autouse=True)
def thread_children() -> Iterator[None]:
    """Read and process videos in threads of this process, because each child process imports the decoder anew."""
    with pytest.MonkeyPatch.context() as patch:
        _start_children(patch, ChildThread)
        yield


@pytest.fixture(autouse=True)
def real_children(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read and process videos in child processes, as users do, in a test that is marked ``real_child``."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("real_child"):
            _start_children(patch, Child)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("videos")


@pytest.fixture(scope="session")
def video(folder: Path) -> Path:
    """Five seconds in four shots; the index of an MP4 stands at its end."""
    return videos.write_video(folder / "video.mp4", videos.images(videos.FRAMES, videos.CUTS))


@pytest.fixture(scope="session")
def synthetic_video(folder: Path) -> tuple[Path, SyntheticVideo]:
    """A video of the generator, with its cuts known: half a minute of hard cuts and a dissolve."""
    settings = SyntheticVideoSettings(
        seed=1, scenes=6, shots_per_scene=(4, 6), shot_seconds=(1.0, 2.0), width=320, height=180, dissolves=1
    )
    path = folder / "synthetic.mp4"
    return path, write_video(path, settings)


@pytest.fixture(scope="session")
def model(folder: Path) -> Path:
    """An untrained model, for tests in which scores do not matter."""
    import torch  # seconds, for tests that train or score only

    from pipelines.models.networks.torch_networks import RelationalNetwork

    torch.manual_seed(0)
    path = folder / "untrained.safetensors"
    shape = RelationalSettings()
    calibration = Calibration(slope=1.0, offset=1e-9)  # a model that has one is not warned about
    network = RelationalNetwork(shape)
    save_boundary_model(path, BoundaryModel(crn="relational", network=network, shape=shape, calibration=calibration))
    return path


@pytest.fixture
def bassl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Run the command in this process, in a folder of its own, ``work``."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return running(monkeypatch, capfd)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    running = Cluster(folder, 2)
    yield running
    running.close()
