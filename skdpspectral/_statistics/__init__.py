"""Private statistics: what each releases at a cost, and how it is made from rows.

A statistic knows the core and kernels of ``_linalg``; it knows no estimator.
"""
