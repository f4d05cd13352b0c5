"""Python on Linux without what Windows lacks, for processes that have this folder in PYTHONPATH.

Modules that only POSIX has are missing. For the code of this project also: functions, signals and flags that only POSIX
has, opening a folder, flushing a file that is open for reading, moving or removing a file that this process has open,
and text files in the encoding of the system. Nobody can write a file with a name that Windows refuses.
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
REFUSED = re.compile(r'[<>:"|?*\\\x00-\x1f]|[ .]$|^(con|prn|aux|nul|com\d|lpt\d) *(\.|$)', re.IGNORECASE)

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
    if event not in ("open", "os.mkdir", "os.rename", "os.remove"):
        return
    frame = sys._getframe().f_back
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes):
            if "/proc/" not in os.fsdecode(path) and flags & os.O_CREAT:
                check_name(path)
            if is_own(frame) and os.path.isdir(path):  # noqa: PTH112
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    elif event == "os.mkdir":
        check_name(arguments[0])
    elif event == "os.rename":
        check_name(arguments[1])
        if is_own(frame) and (is_open(arguments[0]) or is_open(arguments[1])):
            raise PermissionError(errno.EACCES, "the file is used by another process", *arguments[:2])
    elif event == "os.remove" and is_own(frame) and is_open(arguments[0]):
        raise PermissionError(errno.EACCES, "the file is used by another process", arguments[0])


def check_name(path: str | bytes) -> None:
    name = os.path.basename(os.fsdecode(path))  # noqa: PTH119
    if REFUSED.search(name):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)


def install() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    flush, handle = os.fsync, signal.signal

    def fsync(descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        flags = re.search(r"flags:\s+(\d+)", Path(f"/proc/self/fdinfo/{number}").read_text(encoding="utf-8"))
        assert flags is not None
        if int(flags[1], 8) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flush(descriptor)

    def set_signal(number: int, handler: Any) -> Any:
        if is_own(sys._getframe(1)) and number not in (signal.SIGINT, signal.SIGTERM, signal.SIGABRT):
            raise ValueError("signal number out of range")
        return handle(number, handler)

    os.fsync, signal.signal = fsync, set_signal
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # there, rmtree opens no folders
    hide(os, OS)
    hide(signal, SIGNALS)
    warnings.filterwarnings("ignore", category=EncodingWarning)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"(bassl|bassl_cli|pipelines)(\.|$)")
    sys.addaudithook(audit)


if sys.platform == "linux":
    install()
