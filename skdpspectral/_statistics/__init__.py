"""Private statistics: their releases, costs and computation from rows.

One class is one statistic: it plans its releases from public numbers, runs on rows, and
returns remarks on its guarantee. Statistics use the core and the kernels of
``_linalg``, and no estimator.
"""
