"""Tables as other libraries have them: slices of rows, and no array."""

import numpy as np


class SlicedTable:
    """A table that can be read by slices of rows alone, and notes how."""

    def __init__(self, values, shape=None, dtype=None):
        self.values = np.asarray(values)
        self.shape = self.values.shape if shape is None else shape
        self.dtype = self.values.dtype if dtype is None else dtype
        self.longest = 0

    def __getstate__(self):
        """What the table is, without how it was read."""
        return {**vars(self), "longest": 0}

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        block = self.values[rows].copy()
        self.longest = max(self.longest, len(block))
        return block


class BrokenTable(SlicedTable):
    """A table whose file fails, with an error that quotes a value."""

    def __getitem__(self, rows):
        raise OSError(f"checksum of row {self.values[rows][0]} is secret")


class ClosedTable(SlicedTable):
    """A table whose file was closed."""

    shape = property(lambda self: 1 / 0, lambda self, value: None)


class MaskedTable(SlicedTable):
    """A table with a missing value, as of netCDF4."""

    def __getitem__(self, rows):
        block = np.ma.array(super().__getitem__(rows))
        block[-1, 0] = np.ma.masked
        return block


class NamelessTable(SlicedTable):
    """A table whose type of numbers cannot be read, with an error that quotes one."""

    @property
    def dtype(self):
        raise RuntimeError("the first value is secret")

    @dtype.setter
    def dtype(self, value):
        pass


class ChangingTable(SlicedTable):
    """A table whose values are others after the first pass over them."""

    def __init__(self, values, later):
        super().__init__(values)
        self.later, self.n_read = later, 0

    def __getitem__(self, rows):
        block = super().__getitem__(rows)
        if self.n_read >= len(self.values):
            block[:] = self.later
        self.n_read += len(block)
        return block
