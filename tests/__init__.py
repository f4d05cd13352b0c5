"""Tests have settings and secrets of their own, and not those of the user who runs them."""

import atexit
import os
import shutil
import tempfile

if "BASSL_TESTS" not in os.environ:  # this process started none of the others
    folder = os.environ["BASSL_TESTS"] = tempfile.mkdtemp(prefix="bassl-tests-")
    os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
