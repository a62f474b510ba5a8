"""All benchmarks of speed, by one command, and the page of the documentation.

    python examples/benchmarks/run_all.py [--quick] [--python PATH ...] [--repeats 3]
        [--folder FOLDER] [--page]

Runs speed_peers.py, and cost_curves.py with its drawing, and leaves what they measured
in a folder, as lines of JSON; a run that was broken off goes on where it was. With
``--page`` nothing is measured: the table of doc/benchmarks_table.rst and its drawing
are made from the folder. Benchmarks of accuracy have commands of their own, named in
the user guide beside their figures.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOC = HERE.parents[1] / "doc"
PEERS, CURVES, MACHINE = "peers.json.txt", "curves.json.txt", "machine.json.txt"


def processor():
    """Return the name of the processor, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [
            line.split(":", 1)[1].strip() for line in lines if "model name" in line
        ]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def machine():
    """Describe where it runs."""
    packages = ("numpy", "scipy", "scikit-learn")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in packages),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def measure(options, folder):
    """Run the scripts, which print what they find."""
    with (folder / MACHINE).open("w") as file:
        file.write(json.dumps(machine()))
    common = ["--quick"] * options.quick
    common += ["--repeats", str(options.repeats)] * bool(options.repeats)
    peers = ["--record", str(folder / PEERS), "--python", *options.python]
    curves = ["--record", str(folder / CURVES)]
    failed = 0
    for script, more in (("speed_peers.py", peers), ("cost_curves.py", curves)):
        command = [sys.executable, str(HERE / script), *common, *more]
        failed |= subprocess.run(command, cwd=HERE).returncode
    return failed


def read(path):
    """Return the lines of a file, the last ones of their kind."""
    from tables import read_lines

    found = {}
    for line in read_lines(path):
        name = line.get("case") or line["curve"], str(line.get("way") or line["size"])
        found[name] = line
    return list(found.values())


def table(header, rows):
    """Return a table of reStructuredText."""
    out = [".. list-table::", "   :header-rows: 1", ""]
    for row in (header, *rows):
        for place, cell in enumerate(row):
            out.append(f"   {'*' if place == 0 else ' '} - {cell}")
    return "\n".join(out) + "\n"


def peers_text(lines):
    """Return the tables of ways beside each other."""
    from speed_sides import CASES

    parts = []
    for case, about in CASES.items():
        own = [line for line in lines if line["case"] == case]
        if not own:
            continue
        sizes = ", ".join(f"{key} = {size:,}" for key, size in own[0]["size"].items())
        rows = []
        for line in own:
            figures = ("left out here", "", "")
            if "left_out" not in line:
                ratio = line["ours_over_it"]
                figures = (
                    f"{line['cpu_s']:.3g}",
                    f"{line['peak_mb']:.0f}",
                    f"{ratio:.2f}" if ratio >= 0.01 else f"{ratio:.1g}",
                )
            rows.append((line["way"], *figures))
        header = ("Way", "CPU seconds", "Peak MB", "Ours over it")
        what = about.what[0].upper() + about.what[1:]
        parts.append(f"**{what}** ({sizes}).\n\n" + table(header, rows))
    return "\n".join(parts)


def curves_text(points):
    """Return the table of slopes."""
    from cost_curves import CURVES, slope

    rows = []
    for name, (_, about, *_) in CURVES.items():
        own = sorted((p for p in points if p["curve"] == name), key=lambda p: p["size"])
        if len(own) < 3:
            continue
        sizes = [point["size"] for point in own]
        times = [point["cpu_s"] for point in own]
        memory = [point["peak_mb"] for point in own]
        rows.append(
            (
                f"{name}: {about}",
                f"{sizes[0]:,} to {sizes[-1]:,}",
                f"{times[0]:.3g} to {times[-1]:.3g}",
                f"{slope(sizes, times):.2f}",
                f"{memory[0]:.0f} to {memory[-1]:.0f}",
            )
        )
    header = ("What grows", "Sizes", "CPU seconds", "Slope of time", "Peak MB")
    return table(header, rows)


def write_page(folder):
    """Write the generated part of the page, and its drawing."""
    import cost_curves

    found = json.loads((folder / MACHINE).read_text())
    load = f", load {found['load']} at the beginning" if found["load"] else ""
    text = [
        ".. Made by examples/benchmarks/run_all.py --page: not to be edited.\n",
        f"{found['processor']}, {found['cores']} cores{load}; {found['system']}, "
        f"Python {found['python']}, {found['packages']}; one thread.\n",
        peers_text(read(folder / PEERS)),
    ]
    points = read(folder / CURVES)
    curves = {
        name: sorted((p for p in points if p["curve"] == name), key=lambda p: p["size"])
        for name in cost_curves.CURVES
    }
    text += ["**Growth.**\n", curves_text(points)]
    (DOC / "benchmarks_table.rst").write_text("\n".join(text))
    drawn = {name: own for name, own in curves.items() if own}
    cost_curves.draw(drawn, str(DOC / "_static/cost_curves.svg"))


def main():
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--python", nargs="*", default=[], help="Pythons of packages")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="benchmarks-"))
    folder.mkdir(parents=True, exist_ok=True)
    if options.page:
        write_page(folder)
        return 0
    print(f"figures go to {folder}", flush=True)
    return measure(options, folder)


if __name__ == "__main__":
    sys.exit(main())
