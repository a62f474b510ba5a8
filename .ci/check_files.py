"""Refuse files that have no place in the history: large ones, and data.

git ls-files -z | xargs -0 python .ci/check_files.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# Bytes; the largest file that is written by hand is far below.
LARGEST = 200_000
# Rows of people come in these, and a ledger is a database.
DATA = re.compile(
    r"(^|/)(data|datasets?_cache|scikit_learn_data)/"
    r"|\.(arff|csv|db|dat|feather|h5|hdf5|jsonl|mat|npy|npz|parquet|pkl|pickle|sqlite"
    r"|tar|tgz|gz|xz|tsv|xlsx?|zarr|zip)$"
    r"|-(lock|wal|shm)$",
    re.IGNORECASE,
)


def complaint(name: str) -> str | None:
    """Return what is wrong with a file; None if nothing is."""
    if DATA.search(name):
        return f"{name}: data do not belong in the history, not even for a moment"
    path = Path(name)
    if path.is_file() and path.stat().st_size > LARGEST:
        return f"{name}: larger than {LARGEST} bytes"
    return None


def main(names: list[str]) -> int:
    """Complain of each file; return the exit status."""
    complaints = [c for c in map(complaint, names) if c is not None]
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
