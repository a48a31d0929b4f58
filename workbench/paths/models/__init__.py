"""Models of the selectors: the same algorithm as the kernels, on one row, under a given arrival order.

Every model reports the same telemetry. Threads are modelled by the order in which they reach the buffer; within that
order a model is deterministic, so that all of a selector's behaviours are the models over all arrival orders.
"""
