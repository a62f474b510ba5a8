"""One style for all figures of the gallery, named in ``conf.py``."""

import matplotlib.pyplot as plt

STYLE = {
    "axes.formatter.min_exponent": 4,  # 0.1, 1 and 1000 instead of powers
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": 10,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
}


def use(gallery_conf=None, fname=None):
    """Set colors that color-blind readers can tell apart, and sizes of thumbnails."""
    plt.style.use(["tableau-colorblind10", STYLE])
