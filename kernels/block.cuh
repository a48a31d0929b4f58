// What the threads of one block do together.
#pragma once

#include "platform.cuh"

namespace workbench {

constexpr int WARP = 32;
constexpr unsigned WHOLE_WARP = 0xFFFFFFFFu;
constexpr int THREADS = WORKBENCH_THREADS;
constexpr int WARPS = THREADS / WARP;
static_assert(THREADS % WARP == 0 && WARPS <= WARP, "a block has 1 to 32 whole warps");

// Sum over the lanes up to this one.
__device__ __forceinline__ int warp_inclusive_sum(int value) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int step = 1; step < WARP; step *= 2) {
    const int other = __shfl_up_sync(WHOLE_WARP, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

// `count` places in a row for each thread, by one atomic for its warp. The whole warp takes part.
__device__ __forceinline__ int take_slots(int* counter, int count) {
  const int upto = warp_inclusive_sum(count);
  int first = 0;
  if (threadIdx.x % WARP == WARP - 1 && upto > 0) first = atomicAdd(counter, upto);
  return value_of_lane(first, WARP - 1) + upto - count;
}

// Sum over the threads before this one. All threads take part; `sums` holds WARPS + 1 numbers of shared memory, the
// last of which is then the sum over all.
__device__ __forceinline__ int block_exclusive_sum(int value, int* sums) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int inclusive = warp_inclusive_sum(value);
  __syncthreads();  // an earlier sum may still be read
  if (lane == WARP - 1) sums[warp] = inclusive;
  __syncthreads();
  if (warp == 0) {
    const int own = lane < WARPS ? sums[lane] : 0;
    const int upto = warp_inclusive_sum(own);
    if (lane < WARPS) sums[lane] = upto - own;
    if (lane == WARPS - 1) sums[WARPS] = upto;
  }
  __syncthreads();
  return sums[warp] + inclusive - value;
}

}  // namespace workbench
