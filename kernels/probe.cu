// A kernel that does nothing: how many clusters of its blocks a device runs at once is asked of the driver.
extern "C" __global__ void workbench_probe() {}
