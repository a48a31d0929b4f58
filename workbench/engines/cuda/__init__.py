"""The workbench's own CUDA kernels: which source runs a path, how it is built, and how it is launched."""
