// Selectors of a whole device on one row: exact prefixes until what shares the last one fits a buffer of ties, which the
// leading block cuts. Models: workbench/paths/models/prefixes.py.
#include "candidates.cuh"
#include "group.cuh"
#include "scores.cuh"

namespace workbench {

constexpr bool NAN_IS_LEAST = WORKBENCH_NAN_IS_LEAST;  // NaN counts as -inf
using Refined = Digits<WORKBENCH_DIGITS>;              // of the ties
using Prefixes = Digits<WORKBENCH_PREFIX_DIGITS>;
using Rest = Digits<WORKBENCH_REST_DIGITS>;  // where more ties share the prefix than fit; 0 where prefixes are whole keys
constexpr int SLOTS = WORKBENCH_CAPACITY_MOST;
constexpr int BINS = 1 << larger(larger(Refined::most(), Prefixes::most()), Rest::most());
static_assert(BINS == GROUP_BINS && WORKBENCH_ITEMS >= 0, "the group adds up all bins");

struct Shared {
  Counts<BINS> counts;
  Candidates<SLOTS, WORKBENCH_RANKED_TIES> candidates;
};

enum Counter { TAKEN, TIES, EQUAL, COUNTERS };
static_assert(COUNTERS == WORKBENCH_ZEROED, "cells of a row that begin at 0");

__device__ __forceinline__ unsigned key_of_score(float score) {
  return ordered_key(NAN_IS_LEAST && score != score ? __uint_as_float(0xFF800000u) : score);
}

// The scores of a row that one block reads: loads dealt out to the threads of all blocks in turn.
struct Dealt {
  const Row& row;
  const Group& group;

  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) const {
    const unsigned length = row.length, span = static_cast<unsigned>(group.blocks) * THREADS * LOAD;
    for (unsigned first = (group.rank * THREADS + threadIdx.x) * LOAD; first < length; first += span) {
      float held[LOAD];
      load(row, first, held);
#pragma unroll
      for (int at = 0; at < LOAD; ++at) {
        if (first + at < length) visit(static_cast<int>(first) + at, key_of_score(held[at]));
      }
    }
  }
};

__device__ __forceinline__ void serve(const Call& call, int number, Group& group, Shared& shared) {
  if (!call.takes(number)) return;  // nor does any other block of the group
  const Row row = call.row(number);
  int* counters = counters_of(call, number);
  int* ties = cells_of(call, number, SLOTS);
  const Output output = call.output(number, &counters[TAKEN]);
  if (output.settles(row.length, group.rank == 0)) return;
  Recorder recorder(call.books, number, group.rank == 0);
  Together<BINS> counts{shared.counts, group};
  const Dealt dealt{row, group};
  const auto keys = [&](auto visit) { dealt.each([&](int, unsigned key) { visit(key); }); };
  const int room = room_of(call.k);
  Search at{0, 0, call.k, row.length};
  Prefixes::each([&](int bits) {
    narrow<KEY_BITS>(at, bits, counts, recorder, keys);
    return at.equal > room;
  });
  const bool rescans = Rest::most() > 0 && at.equal > room;
  if (rescans) {
    recorder.fell_back();
    Rest::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, counts, recorder, keys);
      return true;
    });
  }
  const int shift = KEY_BITS - at.searched;
  const unsigned pivot = prefix_of(at.pivot, shift);
  dealt.each([&](int index, unsigned key) {
    const unsigned prefix = prefix_of(key, shift);
    if (prefix > pivot) {
      output.take(index);
    } else if (prefix == pivot && rescans) {
      if (take_slot(&counters[EQUAL]) < at.need) output.take(index);
    } else if (prefix == pivot) {
      const int slot = take_slot(&counters[TIES]);
      if (slot < room) ties[slot] = index;
    }
  });
  if (rescans) return;
  const int stored = at.equal < room ? at.equal : room;
  recorder.stored(true, stored);
  group.wait();
  if (group.rank != 0) return;
  for (int slot = threadIdx.x; slot < stored; slot += THREADS) {
    shared.candidates.members[0][slot] = load_now(&ties[slot]);
  }
  __syncthreads();
  shared.candidates.template cut<Refined>(stored, at.need, shared.counts, output, recorder,
                                          [&](int index) { return key_of_score(row.scores[index]); });
}

__device__ __forceinline__ void select(const Call& call, int block, Shared& shared) {
  Group group(call, block);
  for (int number = group.number; number < call.rows; number += group.groups) serve(call, number, group, shared);
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
