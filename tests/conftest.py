"""Settings that every test shares."""

from __future__ import annotations

import signal

import torch

torch.set_num_threads(1)  # rows are short: threads cost more than they save, and two cores run much else

# What a shell runs in the background ignores Ctrl-C, and so does all that is started there: tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
