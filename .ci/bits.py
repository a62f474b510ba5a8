"""Fingerprints of what seeded fits leave behind: a change of form must not change them.

    python .ci/bits.py record FILE     # before a change
    python .ci/bits.py compare FILE    # after it: prints what differs, and fails

Every setting of ``tests/test_common.py`` is fitted on small tables with a fixed seed,
alone and with a ledger. A fingerprint covers fitted attributes, the plan, texts,
predictions, messages of warnings, the rows of the ledger, and the bytes of federated
tasks and of published copies. Names of modules and of private classes are left out, so
that code may move. Run it with one BLAS thread (the command sets it).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import warnings
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "tools")]

import numpy as np  # noqa: E402

# What differs from run to run, or belongs to one process.
LEFT_OUT = {"accountant", "id", "time", "digest", "partition", "_lock", "callbacks"}


def canonical(value, depth=0) -> str:
    """Return a text that two equal values share, whatever modules they come from."""
    if depth > 12:
        return "..."
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return canonical(value.tolist(), depth + 1)
        data = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array({value.dtype},{value.shape},{data})"
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if value is None or isinstance(value, str | bytes | bool | int | np.generic):
        return repr(value)
    if isinstance(value, dict):
        items = (
            f"{canonical(k, depth + 1)}:{canonical(v, depth + 1)}"
            for k, v in sorted(value.items(), key=lambda item: str(item[0]))
            if k not in LEFT_OUT
        )
        return "{" + ",".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical(v, depth + 1) for v in value) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(canonical(v, depth + 1) for v in value)) + "}"
    if isinstance(value, type) or callable(value):
        return "callable"
    fields = getattr(value, "__dict__", None)
    if fields is None:
        slots = getattr(type(value), "__slots__", ())
        fields = {name: getattr(value, name, None) for name in slots}
    return canonical(fields, depth + 1)


def described(function) -> str:
    """Return what a call gives, or its error's type and text."""
    try:
        return canonical(function())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def tables(estimator):
    """Return rows and targets that an estimator fits."""
    from test_common import a_table

    X, y, _ = a_table(estimator)
    return X, y


def fingerprint(estimator) -> dict[str, str]:
    """Return fingerprints of one seeded fit, by what they are of."""
    from sklearn.base import clone

    from skdpspectral import PrivacyAccountant

    X, y = tables(estimator)
    ledger = PrivacyAccountant()
    model = clone(estimator).set_params(noise_seed=0, accountant=ledger)
    found = {"constructor": str(model.set_params(accountant=None))}
    model.set_params(accountant=ledger)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found["plan before"] = described(lambda: model.plan_for(X))
        found["fit"] = described(lambda: model.fit(X, y) and None)
        for name in ("predict", "transform", "predict_proba", "score_samples"):
            if hasattr(model, name):
                found[name] = described(lambda n=name: getattr(model, n)(X))
    found["warnings"] = canonical([str(w.message) for w in seen])
    state = {k: v for k, v in vars(model).items() if k not in LEFT_OUT}
    found["attributes"] = canonical({k: v for k, v in state.items() if k[-1] == "_"})
    privacy = getattr(model, "privacy_", None)
    found["privacy"] = str(privacy)
    if hasattr(privacy, "to_json"):
        found["plan"] = privacy.to_json()
    found["ledger"] = canonical(
        [
            {k: v for k, v in entry._asdict().items() if k not in LEFT_OUT}
            for entry in ledger.ledger
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found["published"] = described(
            lambda: {
                k: v for k, v in vars(model.publish()).items() if k not in LEFT_OUT
            }
        )
    return found


def tasks() -> dict[str, str]:
    """Return the digests of federated tasks, as hexadecimal digits."""
    from skdpspectral import FederatedDPPCA
    from skdpspectral.decomposition import SpikedModel
    from skdpspectral.federation import SpectralTask

    box = {"bounds": (-10, 10)}
    made = {
        "plain": FederatedDPPCA(1, **box),
        "covariance": FederatedDPPCA(2, projection_norm=5.0, **box),
        "pairs": FederatedDPPCA(1, center="pairs"),
        "model": FederatedDPPCA(1, mechanism=SpikedModel(1e6, 1.0)),
        "matrix": FederatedDPPCA(1, aggregation="matrix", **box),
    }
    return {n: SpectralTask(one, 5).digest.hex() for n, one in made.items()}


def settings():
    """Yield the settings of the common tests, with a name each."""
    from test_common import ESTIMATORS

    for number, estimator in enumerate(ESTIMATORS):
        yield f"{number} {type(estimator).__name__}", estimator


def record() -> dict[str, dict[str, str]]:
    """Return the fingerprints of all settings."""
    found = {name: fingerprint(estimator) for name, estimator in settings()}
    return {**found, "tasks": tasks()}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    found = record()
    if options.command == "record":
        options.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} settings recorded")
        return
    before = json.loads(options.file.read_text())
    differ = [
        f"{name}: {part}\n   {old[:300]}\n   {found.get(name, {}).get(part, '')[:300]}"
        for name, parts in before.items()
        for part, old in parts.items()
        if found.get(name, {}).get(part) != old
    ]
    print("\n".join(differ))
    print(f"{len(before)} settings compared, {len(differ)} differences")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
