"""Python on Linux without what Windows lacks, for processes that have this folder in PYTHONPATH.

Modules that only POSIX has are missing. For the code of this project also: functions, signals and flags that only POSIX
has, opening a folder, moving or removing a file that this process has open, and text in the encoding of the system.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sys
import warnings
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

MODULES = "crypt fcntl grp posix_ipc pty pwd readline resource spwd syslog termios tty".split()  # noqa: SIM905
# All that typeshed has for systems other than Windows and that this project might use.
OS = """
    O_CLOEXEC O_DIRECT O_DIRECTORY O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WNOHANG chown chroot confstr
    copy_file_range ctermid fchmod fchown fdatasync fork forkpty fpathconf fstatvfs getegid geteuid getgid getgroups
    getloadavg getpgid getpgrp getpriority getresuid getsid getuid getxattr killpg lchown listxattr lockf major
    memfd_create minor mkfifo mknod nice openpty pathconf pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv
    pwrite pwritev readv register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile setegid seteuid
    setgid setgroups setpriority setsid setuid setxattr statvfs sync sysconf tcgetpgrp tcsetpgrp ttyname uname wait
    setpgid wait3 wait4 waitid writev
"""
SIGNALS = """
    ITIMER_PROF ITIMER_REAL ITIMER_VIRTUAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT
    SIGSTOP SIGSYS SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIG_BLOCK SIG_SETMASK
    SIG_UNBLOCK alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigtimedwait
    sigwait sigwaitinfo
"""

_HOME = str(Path(__file__).parents[2])
_OWN = tuple(os.path.join(_HOME, name, "") for name in ("bassl", "bassl_cli", "pipelines"))  # noqa: PTH118
_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120


def is_own(frame: FrameType | None) -> bool:
    """Whether the code of this project is running, directly or through the standard library. A temporary file of
    ``tempfile``, which Windows removes by other means, does not count."""
    while frame is not None and (frame.f_code.co_filename.startswith("<") or _is_standard(frame.f_code.co_filename)):
        if frame.f_code.co_filename.endswith("tempfile.py"):
            return False
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OWN)


def _is_standard(file: str) -> bool:
    return file.startswith(_LIBRARY) and "site-packages" not in file


def hide(module: ModuleType, names: str) -> None:
    """Hide attributes from the code of this project."""
    hidden = {name: vars(module).pop(name) for name in names.split() if name in vars(module)}

    def find(name: str) -> Any:
        if name not in hidden or (sys._getframe(1).f_code.co_filename.startswith(_OWN)):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
        return hidden[name]

    module.__getattr__ = find  # type: ignore[method-assign]


def is_open(path: str) -> bool:
    """Whether this process has a file open, or one in a folder, or mapped into memory."""
    real = os.path.realpath(path)
    names = set(re.findall(r"(?m) (/.*)$", Path("/proc/self/maps").read_text(encoding="utf-8")))
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            names.add(str(descriptor.readlink()))
        except OSError:
            continue
    return any(name == real or name.startswith(real + os.sep) for name in names)


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("open", "os.rename", "os.remove") or not is_own(sys._getframe().f_back):
        return
    if event != "open":
        if any(is_open(path) for path in arguments[: 2 if event == "os.rename" else 1]):
            raise PermissionError(errno.EACCES, "the file is used by another process", arguments[0])
    elif isinstance(arguments[0], str | bytes) and os.path.isdir(arguments[0]):  # noqa: PTH112
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), arguments[0])


def install() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # there, rmtree opens no folders
    hide(os, OS)
    hide(signal, SIGNALS)
    warnings.filterwarnings("ignore", category=EncodingWarning)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"(bassl|bassl_cli|pipelines)(\.|$)")
    sys.addaudithook(audit)


if sys.platform == "linux":
    install()
