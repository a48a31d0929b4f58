// A table of numbers that were seen, in shared memory: at most half as many as it has slots, none of them negative.
#pragma once

namespace workbench {

constexpr int SLOTS = WORKBENCH_SEEN_SLOTS;
constexpr int FREE = -1;
static_assert((SLOTS & (SLOTS - 1)) == 0, "a power of two");

__device__ __forceinline__ unsigned first_slot(int number) {
  return (static_cast<unsigned>(number) * 2654435761u >> 7) % SLOTS;
}

// Whether a number had not been seen yet; it has been from then on. Any number of threads may ask at once.
__device__ __forceinline__ bool is_new(int* seen, int number) {
  for (unsigned slot = first_slot(number);; slot = (slot + 1) % SLOTS) {
    const int before = atomicCAS(&seen[slot], FREE, number);
    if (before == FREE) return true;
    if (before == number) return false;
  }
}

// The slot of a number, FREE where it was not seen. Nobody may be adding one.
__device__ __forceinline__ int slot_of(const int* seen, int number) {
  for (unsigned slot = first_slot(number);; slot = (slot + 1) % SLOTS) {
    if (seen[slot] == number) return static_cast<int>(slot);
    if (seen[slot] == FREE) return FREE;
  }
}

}  // namespace workbench
