"""Statistics from which principal components follow.

Each in a file of its own; ``principal_components`` shares a budget between them, and
``two_stage`` where a power step follows. ``design`` makes of an estimator's parameters
(``strategies``) the ``mechanism``, which chooses one.
"""
