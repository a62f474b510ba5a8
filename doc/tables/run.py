"""Write the tables of measured figures that pages include, and check them.

    python doc/tables/run.py pca_mechanisms   # measures and writes pca_mechanisms.rst
    python doc/tables/run.py --check          # measures a tenth of the quick rows again
    python doc/tables/run.py --check --all    # all quick rows

A table is a module of this folder with

- ``HEADER``: the title of the column of rows;
- ``ROWS``: a mapping of row titles to settings;
- ``measure(setting, seed)``: one repeat, as a mapping of column titles to numbers;
- ``REPEATS``: how many, or a mapping of the row titles that have fewer (default 25);
- ``DIGITS``: digits after the point (default 3);
- ``SLOW``: row titles that a check leaves out (default none).

Repeats of a table have the seeds 0, 1, 2, ..., those of a check 1000, 1001, ... A check
fails if a mean differs by more than four standard errors of the difference, which a
figure that holds does with a probability of 6e-5. The day decides which tenth is
checked, and its seeds are fixed: a row that passes goes on passing until the code or
the table changes. Tables of data sets that are not there are left out.
"""

import argparse
import csv
import datetime
import importlib
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "examples" / "benchmarks")]
NAMES = sorted(
    path.stem for path in FOLDER.glob("*.py") if path.stem not in ("run", "common")
)
CHECK_SEED, MAX_ERRORS = 1000, 4.0
REPEATS = "Repeats"  # column that a table has if they differ


def repeats_of(table, row):
    """Return the number of repeats of a row."""
    repeats = getattr(table, "REPEATS", 25)
    if isinstance(repeats, dict):
        return repeats.get(row, 25)
    return repeats


def measure_row(table, row, first_seed=0):
    """Return a mapping of columns to the values of all repeats."""
    found = {}
    for seed in range(first_seed, first_seed + repeats_of(table, row)):
        for column, value in table.measure(table.ROWS[row], seed).items():
            found.setdefault(column, []).append(float(value))
    return found


def short(value, digits):
    """Return a number with so many digits."""
    return f"{round(float(value), digits) + 0.0:.{digits}f}"  # no minus before zeros


def cell(values, digits):
    """Return mean and standard error as text; of one repeat the value alone."""
    mean = short(np.mean(values), digits)
    if len(values) == 1:
        return mean
    return f"{mean} ± {short(np.std(values, ddof=1) / np.sqrt(len(values)), digits)}"


def quoted(texts):
    """Return one line of comma-separated values."""
    return ", ".join('"' + text.replace('"', '""') + '"' for text in texts)


def write(name):
    """Measure a table and write the file that pages include."""
    table = importlib.import_module(name)
    digits = getattr(table, "DIGITS", 3)
    rows = {}
    for row in table.ROWS:
        start = time.process_time()
        rows[row] = measure_row(table, row)
        texts = [cell(values, digits) for values in rows[row].values()]
        print(f"{time.process_time() - start:7.1f} s  {row}: {texts}", flush=True)
    columns = list(dict.fromkeys(column for found in rows.values() for column in found))
    cells = {
        row: [
            cell(found[column], digits) if column in found else "" for column in columns
        ]
        for row, found in rows.items()
    }
    save(table, name, columns, cells)


def save(table, name, columns, cells):
    """Write the file of a table from the texts of its cells, by row."""
    counts = {row: repeats_of(table, row) for row in cells}
    lines = [[table.HEADER, *columns], *([row, *cells[row]] for row in cells)]
    if len(set(counts.values())) > 1:
        for line, text in zip(lines, [REPEATS, *counts.values()], strict=True):
            line.append(str(text))
        what = "Mean ± standard error; "
    else:
        (count,) = set(counts.values())
        what = f"Mean ± standard error of {count} repeats; " if count > 1 else ""
    header, *body = map(quoted, lines)
    text = f".. Written by doc/tables/{name}.py: not to be edited.\n\n.. csv-table::\n"
    text += f"   :header: {header}\n\n" + "".join(f"   {line}\n" for line in body)
    text += f"\n({what}``doc/tables/{name}.py``, {datetime.date.today()}.)\n"
    (FOLDER / f"{name}.rst").write_text(text)


def read(name):
    """Return a mapping of row and column titles to the mean and error as written."""
    lines = (FOLDER / f"{name}.rst").read_text().splitlines()
    (header,) = (line for line in lines if line.startswith("   :header: "))
    texts = [header.replace("   :header: ", "")]
    texts += [line.strip() for line in lines if line.startswith('   "')]
    (_, *columns), *rows = csv.reader(texts, skipinitialspace=True)
    found = {}
    for row, *cells in rows:
        for column, text in zip(columns, cells, strict=True):
            if text and column != REPEATS:
                mean, _, error = text.partition(" ± ")
                found[row, column] = float(mean), float(error or 0.0)
    return found


def quick_rows():
    """Return table and row of all that a check may measure, in a fixed mixed order."""
    pairs = []
    for name in NAMES:
        table = importlib.import_module(name)
        if getattr(table, "NEEDS_DATA", False) and not os.environ.get(
            "SKDPSPECTRAL_DATA"
        ):
            continue
        slow = getattr(table, "SLOW", ())
        pairs += [(name, row) for row in table.ROWS if row not in slow]
    order = np.random.default_rng(0).permutation(len(pairs))
    return [pairs[place] for place in order]


def differences(name, row):
    """Measure a row again; return lines about the figures that do not hold."""
    table, written = importlib.import_module(name), read(name)
    rounding = 10.0 ** -getattr(table, "DIGITS", 3)
    lines = []
    for column, values in measure_row(table, row, CHECK_SEED).items():
        mean, error = written[row, column]
        again = np.std(values, ddof=1) / np.sqrt(len(values)) if values[1:] else 0.0
        limit = MAX_ERRORS * np.hypot(error + 0.5 * rounding, again) + rounding
        if abs(np.mean(values) - mean) > limit:
            new = cell(values, 5)
            lines.append(f"{name}, {row}, {column}: {mean} ± {error}, now {new}")
    return lines


def check(all_rows):
    """Measure rows again; return the number of figures that do not hold."""
    rows = quick_rows()
    if not all_rows:
        rows = rows[datetime.date.today().toordinal() % 10 :: 10]
    failed = 0
    for name, row in rows:
        lines = differences(name, row)
        failed += len(lines)
        print(f"{name}, {row}: {'holds' if not lines else ''}", *lines, sep="\n  ")
    return failed


def main():
    """Write the tables that are named, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[[], *NAMES])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--all", action="store_true", help="all quick rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # seeded noise, few rows: the figures show them
    if options.check:
        sys.exit(check(options.all) > 0)
    for name in options.tables:
        write(name)


if __name__ == "__main__":
    main()
