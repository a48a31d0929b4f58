"""What an op does to the selected indices before it returns them: page tables, offsets, k-pool expansion.

A selector picks positions of a row. Fused ops write something else into their output: cache slots looked up in a page
table, positions moved by an offset, tokens of pools. Each of these is a transform of one row's selection, apart from
how it was selected, so that a recorded output can be turned back into positions and judged.

Every transform takes an int32 or int64 selection [k] on any device and gives int32. ``-1`` stays -1 and ``UNWRITTEN``
stays ``UNWRITTEN`` (on a device, a fused op maps whatever its own memory held in such a slot). Nothing is clamped: an
index, a page or a slot that cannot be mapped is an error that names it. An index past the row's length that the table
still covers is mapped as the op maps it: whether a selection is valid is for the verdict to say.
"""

from workbench.paths.transforms.base import Sequence, Transform
from workbench.paths.transforms.modes import MODES, Mode
from workbench.paths.transforms.pools import KPool
from workbench.paths.transforms.slots import PageTable, Ragged, Raw, WithoutMinusInf, dual, short_row, table_of

__all__ = [
    "MODES",
    "KPool",
    "Mode",
    "PageTable",
    "Ragged",
    "Raw",
    "Sequence",
    "Transform",
    "WithoutMinusInf",
    "dual",
    "short_row",
    "table_of",
]
