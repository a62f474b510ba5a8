"""Reading rows, slices, columns and ids, and bounding rows.

Nothing here knows of budgets or noise.
"""
