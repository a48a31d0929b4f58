"""Where FlashInfer's op sends a row."""

from __future__ import annotations

from workbench.paths.conditions import Questions
from workbench.paths.devices import Device
from workbench.paths.releases import Release

FILTERED_BYTES = 128 * 1024  # of shared memory that the filtered kernel asks for
# Bounds of commit 02ae0b7a, float32, later than the one that was observed.
FILTERED_WIDTH = 32768
WIDTH_PER_ROW = 16384


def ragged(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """flashinfer.top_k_ragged_transform: filtered or radix, as far as that can be told."""
    ask.on_cuda(device)
    k = ask.k_up_to(2048)
    ask.dtype("float32")
    if ask.nothing_to_select(k):
        return "flashinfer.trivial", "stock"
    room = device.sm_bytes
    if not ask.holds(room >= FILTERED_BYTES, f"shared memory {room} ≥ {FILTERED_BYTES} bytes (the filtered kernel)"):
        return "flashinfer.radix", "stock"
    ask.cannot_tell(f"whether the filtered kernel is used: its bounds differ between commits{_later(ask)}")
    return "flashinfer.ragged", "stock"


def _later(ask: Questions) -> str:
    """What a later commit would do with the call, where width and rows are known."""
    width, rows = ask.known("width"), ask.known("rows")
    if width is None or rows is None:
        return ""
    filtered = width <= FILTERED_WIDTH or rows > width // WIDTH_PER_ROW
    taken = "flashinfer.filtered" if filtered else "flashinfer.radix"
    return (
        f"; 02ae0b7a takes {taken} (filtered up to width {FILTERED_WIDTH}, beyond it for more rows than width / "
        f"{WIDTH_PER_ROW})"
    )
