"""Settings that every test shares."""

from __future__ import annotations

import torch

torch.set_num_threads(1)  # rows are short: threads cost more than they save, and two cores run much else
