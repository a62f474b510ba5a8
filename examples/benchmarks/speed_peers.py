"""CPU time and memory beside other packages, in one run, with ratios.

    python examples/benchmarks/speed_peers.py [--quick] [--only pca-tall ...]
        [--python PATH ...] [--repeats 5] [--threads 1] [--seconds 120] [--record FILE]

Each way to do a task runs in a process of its own, by the first Python that has its
package: this one, or one of those that are given. What no Python has is left out, with
a line. Ways take turns, `repeats` times; printed are the least CPU time of a call,
after one that does not count, the largest memory of the process, imports and data
included, and our CPU time over that of each way; ours is the first one. Cases that the
file of --record holds whole, of these sizes, are not measured again.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from speed_sides import CASES, SIDES, peak_mb

# Short calls are made again until they took so many CPU seconds together.
_LEAST_SECONDS = 0.2
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def measure(case, label, size, seconds):
    """Time one call in this very process; return CPU seconds and megabytes."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    warnings.simplefilter("ignore")
    run = SIDES[case][label].make(**size)
    run()
    start, clock, calls = time.process_time(), time.perf_counter(), 0
    while not calls or time.process_time() - start < _LEAST_SECONDS:
        run()
        calls += 1
    return {
        "cpu_s": (time.process_time() - start) / calls,
        "wall_s": (time.perf_counter() - clock) / calls,
        "peak_mb": peak_mb(),
    }


def python_of(module, pythons):
    """Return the first Python that has a package, or None."""
    for python in pythons:
        tried = (
            f"import importlib.util as u; raise SystemExit(not u.find_spec({module!r}))"
        )
        if subprocess.run([python, "-c", tried], capture_output=True).returncode == 0:
            return python
    return None


def call(python, case, label, size, options):
    """Measure one way in a process of its own; None if it does not end well."""
    environment = os.environ | dict.fromkeys(_THREADS, str(options.threads))
    command = [python, __file__, "--measure", case, label, json.dumps(size)]
    command += ["--seconds", str(options.seconds)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["ended by the limit"])[-1]
        return None, last[:100]
    return json.loads(done.stdout.splitlines()[-1]), ""


def compare(case, size, options, pythons):
    """Let the ways of one case take turns; yield a line for each of them."""
    found, reasons = {label: [] for label in SIDES[case]}, {}
    homes = {label: python_of(s.module, pythons) for label, s in SIDES[case].items()}
    for _ in range(options.repeats):
        for label, python in homes.items():
            if python is None or label in reasons:
                reasons.setdefault(label, f"{SIDES[case][label].module} is not there")
                continue
            one, reason = call(python, case, label, size, options)
            if one is None:
                reasons[label] = reason
            else:
                found[label].append(one)
    first = None
    for label, runs in found.items():
        line = {"case": case, "size": size, "way": label}
        if not runs:
            yield line | {"left_out": reasons[label]}
            continue
        least = min(runs, key=lambda run: run["cpu_s"])
        first = least["cpu_s"] if first is None else first
        yield line | least | {"ours_over_it": first / least["cpu_s"]}


def recorded(path, case, size, options):
    """Return a case's lines of a file, or None where a way is missing there."""
    from tables import read_lines

    asked = {"case": case, "size": size, "threads": options.threads}
    lines = [line for line in read_lines(path) if asked.items() <= line.items()]
    found = {line["way"]: line for line in lines if "cpu_s" in line}
    return list(found.values()) if found.keys() == SIDES[case].keys() else None


def main():
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, two repeats")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--python", nargs="*", default=[], help="Pythons of packages")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--record", help="file that lines of JSON are added to")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        case, label, size = options.measure
        print(json.dumps(measure(case, label, json.loads(size), options.seconds)))
        return
    # Peers' Pythons need not have all that this needs.
    from tables import add_line, print_row

    options.repeats = options.repeats or (2 if options.quick else 5)
    pythons = [sys.executable, *options.python]
    for case in options.only:
        size = CASES[case].quick if options.quick else CASES[case].full
        print(f"\n{case}: {CASES[case].what}; {size}, threads: {options.threads}")
        print_row("way", "CPU s", "peak MB", "ours / it", widths=32)
        known = recorded(options.record, case, size, options)
        for line in known or compare(case, size, options, pythons):
            if options.record and not known:
                given = line | {"threads": options.threads}
                add_line(options.record, json.dumps(given))
            if "left_out" in line:
                print_row(line["way"], "left out: " + line["left_out"], widths=32)
                continue
            figures = (line["cpu_s"], line["peak_mb"], line["ours_over_it"])
            print_row(line["way"], *(f"{figure:.3g}" for figure in figures), widths=32)


if __name__ == "__main__":
    main()
