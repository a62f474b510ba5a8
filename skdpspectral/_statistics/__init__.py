"""Private statistics: what each releases at a cost, and how it is made from rows.

One class is one statistic, in one file, of the form of ``combination``: it plans by
public numbers, runs on rows, and says what a reader of the guarantee must know. It
knows the core and kernels of ``_linalg``, and no estimator.
"""
