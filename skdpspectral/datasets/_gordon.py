"""Gene expression of lung tissues, few rows of many features, with public bounds."""

import numpy as np

from ._archives import as_bunch, expect, read_archive, to_pandas

# The usual floor and ceiling of these chips' expression values: below lies background
# (a fifth of all values are negative), above the scanner saturates.
GORDON_RANGE = (10.0, 16_000.0)
N_GORDON_PROBES = 12_533


def load_gordon2002(*, data_home=None, as_frame=False, units="bounded"):
    """Load Gordon's lung tissues: 181 samples, logarithms of 12,533 gene expressions.

    31 samples of malignant pleural mesothelioma and 150 of adenocarcinoma. Values are
    clipped to 10 to 16,000, fixed beforehand, and their logarithms to base 2 taken.
    All probe sets are there: to choose some, by their variance or by how well they
    tell the classes apart, is to look at the data.

    So few rows of so many features are far too few for private components at a
    customary budget; the set is for what the federated paper does with it, and for
    fits without privacy.

    Terms: none are known of. The values were a public supplement of the article
    below: cite it, and ask before redistributing.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds `gordon2002/gordon2002.npz`, with arrays `x10` (n, 12533) of
        expression values times 10, `y` (n,) with 1 for mesothelioma, `sample_name`
        (n,) and `probe_id` (12533,). None reads the environment variable
        SKDPSPECTRAL_DATA.
    as_frame : bool, default=False
        Return `data` and `target` as pandas objects.
    units : {"bounded", "raw"}, default="bounded"
        "bounded": clipped logarithms, as above. "raw": expression values as they were
        recorded, a fifth of them negative, for which no bounds are known.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (181, 12533) in float64, `target` (181,) with 1 for mesothelioma and 0
        for adenocarcinoma, `feature_names`, the names of the probe sets, `bounds` =
        (log2 10, log2 16000), None in raw units, `sample_names` (181,) and `DESCR`.

    Raises
    ------
    OSError
        If there is no such file (FileNotFoundError), or it is not as described.
    ValueError
        If the units are none of these.

    References
    ----------
    G. J. Gordon, R. V. Jensen, L.-L. Hsiao, S. R. Gullans, J. E. Blumenstock,
    S. Ramaswamy, W. G. Richards, D. J. Sugarbaker and R. Bueno (2002), Translation of
    microarray data into clinically relevant cancer diagnostic tests using gene
    expression ratios in lung cancer and mesothelioma, Cancer Research 62(17),
    4963-4967.
    """
    raw = read_archive("gordon2002", ["x10", "y", "sample_name", "probe_id"], data_home)
    _, n_probes = np.shape(raw["x10"])
    expect("number of probe sets", n_probes, N_GORDON_PROBES)
    data, bounds = _in_units(units, raw["x10"] / 10.0)
    bunch = as_bunch(load_gordon2002, data, raw["probe_id"], bounds)
    bunch.update(target=raw["y"], sample_names=raw["sample_name"])
    return to_pandas(bunch, "is_mesothelioma") if as_frame else bunch


def _in_units(units, values):
    """Return values in the units that are asked for, and their bounds."""
    if units == "raw":
        return values, None
    if units != "bounded":
        raise ValueError(f'units must be "bounded" or "raw", got {units!r}')
    low, high = (float(end) for end in np.log2(GORDON_RANGE))
    # Logarithms may be rounded otherwise one by one than in a block.
    data = np.clip(np.log2(np.clip(values, *GORDON_RANGE)), low, high)
    return data, (low, high)
