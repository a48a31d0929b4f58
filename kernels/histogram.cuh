// Counts by bin in shared memory, and the bin that holds the score of a wanted rank.
#pragma once

#include "block.cuh"

namespace workbench {

__host__ __device__ constexpr int larger(int one, int other) { return one > other ? one : other; }

// Where the score of a rank falls: workbench/numeric/histogram.py, `Threshold`.
struct Located {
  int bin, above, population, need;
};

// Shared memory for counts of up to Bins bins.
template <int Bins>
struct Counts {
  int of[Bins];
  int sums[WARPS + 1];
  Located located;
};

// Sets the first `bins` counts to 0. All threads take part and are together afterwards.
template <int Bins>
__device__ __forceinline__ void clear(Counts<Bins>& counts, int bins) {
  __syncthreads();
#pragma unroll 1
  for (int bin = threadIdx.x; bin < bins; bin += THREADS) counts.of[bin] = 0;
  __syncthreads();
}

// The bin that holds the `rank`-th greatest of what was counted, for 1 <= rank <= total. All threads take part.
template <int Bins>
__device__ __forceinline__ Located locate(Counts<Bins>& counts, int bins, int rank) {
  __syncthreads();
  const int each = (bins + THREADS - 1) / THREADS;
  const int top = bins - 1 - static_cast<int>(threadIdx.x) * each;
  int sum = 0;
  for (int step = 0; step < each && top >= step; ++step) sum += counts.of[top - step];
  int above = block_exclusive_sum(sum, counts.sums);
  if (above < rank && rank <= above + sum) {
    int bin = top;
    for (; above + counts.of[bin] < rank; --bin) above += counts.of[bin];
    counts.located = {bin, above, counts.of[bin], rank - above};
  }
  __syncthreads();
  return counts.located;
}

// What was counted, for reading.
template <int Bins>
__device__ __forceinline__ const int* sums_of(const Counts<Bins>& counts) {
  return counts.of;
}

}  // namespace workbench
