// Radix selectors of several blocks a row: exact digits of keys that stay in shared memory. Models:
// workbench/paths/models/{plain,baselines}.py.
#include "emission.cuh"
#include "group.cuh"
#include "scores.cuh"
#include "search.cuh"

namespace workbench {

constexpr bool BY_INDEX = WORKBENCH_BY_INDEX;  // equal keys to the smaller index, else first come
using Searched = Digits<WORKBENCH_DIGITS>;
constexpr int BINS = 1 << Searched::most();
static_assert(WORKBENCH_RANKED_TIES == 0 && WORKBENCH_CAPACITY_MOST == 1, "there is no buffer of candidates");

struct Shared {
  Counts<BINS> counts;
  int first, equal;
};  // the keys of this block's chunk follow

using Held = Scores<WORKBENCH_ITEMS>;

enum Counter { GREATER, EQUAL, COUNTERS };
static_assert(COUNTERS == WORKBENCH_ZEROED, "cells of a row that begin at 0");

// Winners of this block, by one atomic a block; `need` of the equal ones go to the last slots.
__device__ __forceinline__ void write(const Call& call, int number, const Search& at, const unsigned* keys, int begin,
                                      int count, Group& group, Shared& shared, const Output& output) {
  int* counters = counters_of(call, number);
  const int thread = threadIdx.x, each = (count + THREADS - 1) / THREADS;
  const int from = BY_INDEX ? thread * each : thread, step = BY_INDEX ? 1 : THREADS;
  const int to = BY_INDEX && from + each < count ? from + each : count;
  int greater = 0, equal = 0;
  for (int place = from; place < to; place += step) {
    greater += keys[place] > at.pivot;
    equal += keys[place] == at.pivot;
  }
  int slot = block_exclusive_sum(greater, shared.counts.sums);
  if (threadIdx.x == 0) shared.first = atomicAdd(&counters[GREATER], shared.counts.sums[WARPS]);
  int tie = block_exclusive_sum(equal, shared.counts.sums);
  if (BY_INDEX) {
    int* of_blocks = cells_of(call, number, call.blocks);
    if (threadIdx.x == 0) of_blocks[group.rank] = shared.counts.sums[WARPS];
    group.wait();
    if (threadIdx.x == 0) {
      shared.equal = 0;
      for (int rank = 0; rank < group.rank; ++rank) shared.equal += load_now(&of_blocks[rank]);
    }
  } else if (threadIdx.x == 0) {
    shared.equal = atomicAdd(&counters[EQUAL], shared.counts.sums[WARPS]);
  }
  __syncthreads();
  slot += shared.first;
  tie += shared.equal;
  for (int place = from; place < to; place += step) {
    if (keys[place] > at.pivot) {
      output.place(slot++, begin + place);
    } else if (keys[place] == at.pivot && tie < at.need) {
      output.place(output.k - at.need + tie++, begin + place);
    }
  }
}

__device__ __forceinline__ void select(const Call& call, int block, Shared& shared) {
  Group group(call, block);
  const int chunk = ((call.width + call.blocks - 1) / call.blocks + LOAD - 1) / LOAD * LOAD;
  unsigned* keys = reinterpret_cast<unsigned*>(&shared + 1);
  for (int number = group.number; number < call.rows; number += group.groups) {
    if (!call.takes(number)) continue;  // as do all blocks of the group
    const Row row = call.row(number);
    const Output output = call.output(number, nullptr);
    if (output.settles(row.length, group.rank == 0)) continue;
    const int begin = group.rank * chunk < row.length ? group.rank * chunk : row.length;
    const int count = row.length - begin < chunk ? row.length - begin : chunk;
    Recorder recorder(call.books, number, group.rank == 0);
    __syncthreads();  // the keys of an earlier row may still be read
    Held({row.scores + begin, count, row.start}).each([&](int place, float score) { keys[place] = ordered_key(score); });
    Search at{0, 0, call.k, row.length};
    Together<BINS> counts{shared.counts, group};
    Searched::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, counts, recorder, [&](auto visit) {
        for (int place = threadIdx.x; place < count; place += THREADS) visit(keys[place]);
      });
      return true;
    });
    write(call, number, at, keys, begin, count, group, shared, output);
  }
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
