// The coarse pass over a row: its bins, and where the k-th score falls.
#pragma once

#include "histogram.cuh"
#include "ordered_keys.cuh"
#include "telemetry.cuh"

namespace workbench {

constexpr int COARSE_BITS = WORKBENCH_KEY_BITS;
constexpr int COARSE_BINS = 1 << COARSE_BITS;

// The coarse bin of a score: of its fp16 key, or the top bits of its exact key.
__device__ __forceinline__ int bin_of(float score) {
  if constexpr (WORKBENCH_EXACT_BINS) return static_cast<int>(ordered_key(score) >> (KEY_BITS - COARSE_BITS));
  return static_cast<int>(coarse_bin<COARSE_BITS>(score));
}

// The threshold bin, and whether its members go through the buffer: not where all of them win, unless the path sends
// them there all the same.
struct Coarse : Located {
  bool buffered;
};

// Counts bins, of a block or of a cluster, and locates the threshold bin. All threads take part. bin(score) is the
// score's bin.
template <class Tally, class Scores, class Bin>
__device__ __forceinline__ Coarse coarse_pass(const Scores& scores, int k, Tally& counts, const Books& books,
                                              int row, Recorder& recorder, Bin bin) {
  clear(counts, COARSE_BINS);
  scores.each([&](int, float score) { atomicAdd(&counts.of[bin(score)], 1); });
  const Located found = locate(counts, COARSE_BINS, k);
  recorder.bins(found.bin, found.above, found.population, found.need);
  if (TELEMETRY && books.histograms != nullptr && recorder.leads()) {
    int* told = books.histograms + static_cast<long long>(row) * COARSE_BINS;
    for (int at = threadIdx.x; at < COARSE_BINS; at += THREADS) told[at] = sums_of(counts)[at];
  }
  __syncthreads();
  return {found, WORKBENCH_WHOLE_BIN || found.need < found.population};
}

}  // namespace workbench
