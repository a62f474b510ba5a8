"""Ledgers and answers of these tests are in memory, where the system has room for it.

Sites write for good before they answer; a disk that others use too takes most of the
time of a hundred of them. What survives the end of a process does so in memory.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
_ENOUGH = 2**30


@pytest.fixture
def tmp_path(tmp_path):
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < _ENOUGH:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="federation", dir=MEMORY) as folder:
        yield Path(folder)
