"""Rows, calls and captures: the safetensors format of the workbench, and readers of foreign files."""

from workbench.capture.about import CaptureInfo
from workbench.capture.capture import Capture
from workbench.capture.opening import list_tensors, open_capture
from workbench.capture.row import Call, Row
from workbench.capture.tokens import Token, Tokens
from workbench.capture.write import write_capture

__all__ = ["Call", "Capture", "CaptureInfo", "Row", "Token", "Tokens", "list_tensors", "open_capture", "write_capture"]
