// How winners reach the output.
#pragma once

#include "platform.cuh"

namespace workbench {

// What an op returns in place of an index. Raw indices now; another transform is another value of the option.
__device__ __forceinline__ int transformed(int index) {
  static_assert(WORKBENCH_TRANSFORM == 0, "0: indices as they are");
  return index;
}

// The slots of one row. Winners take them as they come.
struct Output {
  int* slots;  // of global memory, k of them
  int k;
  int* written;  // of shared memory: how many winners came

  // Whether there was a slot left.
  __device__ __forceinline__ bool take(int index) const {
    const int slot = take_slot(written);
    if (slot < k) slots[slot] = transformed(index);
    return slot < k;
  }

  // The index as the winner of this slot, whoever else came.
  __device__ __forceinline__ void place(int slot, int index) const {
    if (slot < k) slots[slot] = transformed(index);
  }

  // A row no longer than k: every index in order, then -1.
  __device__ __forceinline__ void whole(int length) const {
    for (int slot = threadIdx.x; slot < k; slot += blockDim.x) slots[slot] = slot < length ? transformed(slot) : -1;
  }
};

}  // namespace workbench
