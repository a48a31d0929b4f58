// Winners in the order of their indices, equal scores to the smaller index.
#pragma once

#include "block.cuh"
#include "call.cuh"
#include "emission.cuh"

namespace workbench {

constexpr int LOSER = 0, EQUAL = 1, WINNER = 2;

// One sweep over the row in tiles of a block's threads. rank(score) says WINNER, EQUAL (the first `need` of which win)
// or LOSER. All threads take part; `sums` as for block_exclusive_sum.
template <class Rank>
__device__ __forceinline__ void sweep(const Row& row, int need, const Output& output, int* sums, Rank rank) {
  constexpr int HIGH = 16;  // a tile has fewer than 2^16 scores: both counts travel in one sum
  int winners = 0, equal = 0;
  for (int base = 0; base < row.length; base += THREADS) {
    const int index = base + threadIdx.x;
    const int is = index < row.length ? rank(row.scores[index]) : LOSER;
    const int before = block_exclusive_sum(is == WINNER ? 1 << HIGH : is == EQUAL ? 1 : 0, sums);
    const int all = sums[WARPS];
    const int equal_before = equal + (before & ((1 << HIGH) - 1)), winners_before = winners + (before >> HIGH);
    const int slot = winners_before + (equal_before < need ? equal_before : need);
    if (is == WINNER || (is == EQUAL && equal_before < need)) output.place(slot, index);
    winners += all >> HIGH;
    equal += all & ((1 << HIGH) - 1);
  }
}

}  // namespace workbench
