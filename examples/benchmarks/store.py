"""Run scripts again whose output doc/papers.rst quotes, and store what they print.

    python examples/benchmarks/store.py paper_claims [plot_rates ...]

Outputs are files of doc/tables/outputs. Each command is a line that begins with "$ ",
and the lines that follow are what it prints. A test looks up the pages' numbers there.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(names):
    """Run the commands of these files, and write the files anew."""
    for name in names:
        path = ROOT / "doc" / "tables" / "outputs" / f"{name}.txt"
        lines = path.read_text().splitlines()
        text = ""
        for command in (line[2:] for line in lines if line.startswith("$ ")):
            arguments = [sys.executable, *command.split()[1:]]
            done = subprocess.run(arguments, cwd=ROOT, stdout=-1, text=True, check=True)
            text += f"$ {command}\n{done.stdout}"
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
