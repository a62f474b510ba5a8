"""Components of other packages, run by a Python of their own: pca_peers.py calls it.

    python pca_packages.py {diffprivlib,opendp} rows.npz rank epsilon repeats seconds

The file has rows of which the mean is zero and none is longer than "norm". Each repeat
prints its components as a line of JSON; the run is ended after so many seconds of CPU.
Neither package has a delta. In both, epsilon is for one replaced row.
"""

import json
import resource
import sys

import numpy as np


def by_diffprivlib(X, norm, rank, epsilon):
    """Eigenvectors by exponential mechanisms; the mean is given."""
    from diffprivlib.models import PCA

    pca = PCA(rank, epsilon=epsilon, data_norm=norm, centered=True)
    return pca.fit(X).components_


def by_opendp(X, norm, rank, epsilon):
    """Eigenvectors by exponential mechanisms; the mean is given."""
    import opendp.prelude as dp
    from opendp.extras.sklearn.decomposition import make_private_pca

    dp.enable_features("contrib", "idealized-numerics")
    n, p = X.shape
    origin = np.zeros(p)
    domain = dp.numpy.array2_domain(
        p=2, norm=norm, origin=origin, num_columns=p, size=n, T=float
    )
    metric = dp.symmetric_distance()
    measurement = make_private_pca(
        domain, metric, float(epsilon), norm=norm, num_components=rank
    )
    # One row that is replaced is one less and one more.
    spent = measurement.map(2)
    if not spent <= epsilon * 1.001:
        raise ValueError(f"one replaced row costs {spent}, not {epsilon}")
    return np.asarray(measurement(X).Vt)[:rank]


def main():
    """Print components, repeat after repeat."""
    package, path, rank, epsilon, repeats, seconds = sys.argv[1:]
    limit = int(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    with np.load(path) as data:
        X, norm = data["rows"], float(data["norm"])
    find = {"diffprivlib": by_diffprivlib, "opendp": by_opendp}[package]
    for _ in range(int(repeats)):
        made = find(X.copy(), norm, int(rank), float(epsilon))
        print(json.dumps(np.asarray(made).tolist()), flush=True)


if __name__ == "__main__":
    main()
