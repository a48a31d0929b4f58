// SGLang's v2 selectors: collected by float32 thresholds of the row's bins, with a buffer of ties that are ranked or
// refined. Model: workbench/paths/models/sglang_v2.py.
#pragma once

#include "bounds.cuh"
#include "candidates.cuh"
#include "coarse.cuh"

namespace workbench {

// What more ties than the buffer holds give way to: nothing, a search of the row by bytes, told by their number or by
// what each rank of a cluster stored of them, or a search by wide digits until they fit.
enum class Fallback { none, counted, clamped, digits };

constexpr Bound RULE = Bound::WORKBENCH_BOUND;
constexpr Fallback FALLBACK = Fallback::WORKBENCH_FALLBACK;
constexpr bool LEAST_PADDING = WORKBENCH_LEAST_PADDING;  // idle lanes and cells after the row's end hold -FLT_MAX
constexpr int RANKED = WORKBENCH_RANKED_TIES;
constexpr int VECTOR = 4;  // scores that a thread of the released kernel loads at once
using Refined = Digits<WORKBENCH_DIGITS>;
using Narrowed = Digits<WORKBENCH_RESCAN_DIGITS>;  // over the row

constexpr int BINS = larger(COARSE_BINS, 1 << larger(Refined::most(), Narrowed::most()));

// Ranks of idle lanes that lie above -inf where so many ties are ranked.
__device__ __forceinline__ int idle_lanes(int ties) {
  if (!LEAST_PADDING || ties <= WARP || ties > 4 * WARP) return 0;
  return (ties <= 2 * WARP ? 2 * WARP : 4 * WARP) - ties;
}

// The `need` best of the buffered ties.
template <int Slots, class KeyOf>
__device__ __forceinline__ void cut(Candidates<Slots, RANKED>& candidates, int stored, int need, Counts<BINS>& counts,
                                    const Output& output, Recorder& recorder, KeyOf key_of) {
  const int idle = idle_lanes(stored);
  if (idle == 0 || stored <= need || stored > RANKED) {
    return candidates.template cut<Refined>(stored, need, counts, output, recorder, key_of);
  }
  const int first = output.k - need;  // by rank, so that slots of -inf that idle lanes outrank are never written
  candidates.rank(stored, key_of, [&](int better, int index, unsigned key) {
    const bool outranked = key == ordered_key(-infinity()) && need - better <= idle;
    if (better < need && !outranked) output.place(first + better, index);
  });
}

// Slots that nothing of the row takes: their own positions, from the aligned cell before the row on; or left unwritten.
__device__ __forceinline__ void fill_up(int from, const Row& row, const Output& output) {
  if constexpr (!WORKBENCH_LEAVES_UNWRITTEN) {
    const int first = row.start % VECTOR;
    for (int slot = from + threadIdx.x; slot < output.k; slot += THREADS) output.put(slot, slot - first);
  }
}

}  // namespace workbench
