// Each score of a row read once: how many fall into each bin of the finest coarse key, whose bins are parts of those of
// all others, and where the k-th score falls under every key. Several blocks may share a row; the last one to be done
// adds up and tells.
#pragma once

#include "histogram.cuh"
#include "ordered_keys.cuh"

namespace workbench {

constexpr int FINE_BITS = WORKBENCH_FINE_BITS;  // of the finest coarse key
constexpr int FINE_BINS = 1 << FINE_BITS;
constexpr int FINE_SHIFT = HALF_BITS - FINE_BITS;
constexpr int COPIES = WORKBENCH_COPIES;  // of the counts, each for some of the warps
constexpr int LOADS = WORKBENCH_LOADS;    // of four scores each that a thread has under way
constexpr int EACH = FINE_BINS / THREADS;
constexpr int VECTOR = 4;
constexpr float HALF_MOST = 65504.0f;  // the greatest fp16 number
static_assert(FINE_BITS >= 8 && FINE_BINS % THREADS == 0, "every thread takes as many bins, and NaN has bins of its own");
static_assert(WARPS % COPIES == 0, "as many warps use each copy of the counts");

// Bits of the coarse keys that are told of, ascending.
template <int... Bits>
struct KeyWidths {
  static constexpr int COUNT = sizeof...(Bits);
  static_assert(((Bits <= FINE_BITS && Bits < 16) && ...), "no key is finer than the finest");

  __host__ __device__ static constexpr unsigned long long packed() {
    unsigned long long all = 0;
    int place = 0;
    ((all |= static_cast<unsigned long long>(Bits) << (4 * place++)), ...);
    return all;
  }

  __device__ __forceinline__ static int at(int place) { return static_cast<int>(packed() >> (4 * place) & 15); }
};
using Widths = KeyWidths<WORKBENCH_KEY_WIDTHS>;

// Scores that are counted beside the bins.
enum Odd { MINUS_INFINITY, PAST_HALF, GREATER, ODD };

// Cells of a row's workspace, which are 0 when the launch begins: counts, odd scores, and how many blocks are done.
constexpr int CELLS = FINE_BINS + ODD + 1;
static_assert(CELLS == WORKBENCH_CENSUS_CELLS, "the workspace differs from the one that the host makes");

// What the host reads of a row: workbench/engines/cuda/census.py.
struct Numbers {
  Located at[Widths::COUNT];  // bin -1 where the row has no k-th score that leaves another one out
  int length, nan, minus_infinity, past_half;
};
static_assert(sizeof(Numbers) == 4 * WORKBENCH_CENSUS_INTS, "the numbers differ from those that the host reads");

struct CensusShared {
  Counts<FINE_BINS> counts;
  int copies[COPIES > 1 ? (COPIES - 1) * FINE_BINS : 1];
  int odd[ODD];
  int last;
  Numbers numbers;
};

// The valid scores of one row.
struct Valid {
  const float* scores;
  int length;
  bool given;  // whether they are what length and start claim
};

// A start or a length that leaves the row is taken as the nearest one that does not.
__device__ __forceinline__ Valid valid_of(const float* scores, long long stride, int width, const int* lengths,
                                          const int* starts, int row) {
  const int claimed = starts == nullptr ? 0 : starts[row];
  const int start = claimed < 0 ? 0 : claimed < width ? claimed : width, room = width - start;
  const int length = lengths[row] < 0 ? 0 : lengths[row] < room ? lengths[row] : room;
  return {scores + row * stride + start, length, claimed == start && lengths[row] == length};
}

// Where the count of a bin lies, and the other way round. Scores of few digits, as whole numbers are, differ in the upper
// bits of their bins alone, which would all be of one bank of shared memory.
__device__ __forceinline__ unsigned place_of(unsigned bin) {
  constexpr int HALF_WAY = (FINE_BITS + 1) / 2;
  return WORKBENCH_SPREAD ? bin ^ bin >> HALF_WAY : bin;
}

// What one thread counts. With Least, also the scores that are not at most `least`: the greater ones, and NaN.
template <bool Least>
class Tally {
 public:
  __device__ __forceinline__ Tally(CensusShared& shared, float least)
      : bins_(copy() == 0 ? shared.counts.of : shared.copies + (copy() - 1) * FINE_BINS), least_(least) {}

  // By the bits of fp16 as they are: the order of the bins is made at the end.
  __device__ __forceinline__ void four(const float4& all) {
    const unsigned low = half_pair(all.x, all.y), high = half_pair(all.z, all.w);
    atomicAdd(&bins_[place_of((low & 0xFFFFu) >> FINE_SHIFT)], 1);
    atomicAdd(&bins_[place_of(low >> (HALF_BITS + FINE_SHIFT))], 1);
    atomicAdd(&bins_[place_of((high & 0xFFFFu) >> FINE_SHIFT)], 1);
    atomicAdd(&bins_[place_of(high >> (HALF_BITS + FINE_SHIFT))], 1);
    const float most = fmaxf(fmaxf(fabsf(all.x), fabsf(all.y)), fmaxf(fabsf(all.z), fabsf(all.w)));
    if (!(most <= HALF_MOST)) {
      odd(all.x);
      odd(all.y);
      odd(all.z);
      odd(all.w);
    }
    if constexpr (Least) {
      count_[GREATER] += !(all.x <= least_);
      count_[GREATER] += !(all.y <= least_);
      count_[GREATER] += !(all.z <= least_);
      count_[GREATER] += !(all.w <= least_);
    }
  }

  __device__ __forceinline__ void one(float score) {
    atomicAdd(&bins_[place_of(half_bits(score) >> FINE_SHIFT)], 1);
    odd(score);
    if constexpr (Least) count_[GREATER] += !(score <= least_);
  }

  // All threads take part.
  __device__ __forceinline__ void tell(CensusShared& shared) {
#pragma unroll
    for (int which = 0; which < ODD; ++which) {
      const int sum = warp_inclusive_sum(count_[which]);
      if (threadIdx.x % WARP == WARP - 1 && sum != 0) atomicAdd(&shared.odd[which], sum);
    }
  }

 private:
  __device__ __forceinline__ static int copy() { return static_cast<int>(threadIdx.x) / WARP % COPIES; }

  __device__ __forceinline__ void odd(float score) {
    const float size = fabsf(score);
    count_[MINUS_INFINITY] += __float_as_uint(score) == 0xFF800000u;
    count_[PAST_HALF] += size > HALF_MOST && __float_as_uint(size) != 0x7F800000u;
  }

  int* bins_;
  const float least_;
  int count_[ODD] = {};
};

// Visits one of `parts` shares of a row: whole vectors where they lie aligned, and the loose scores at both ends.
template <class Tally>
__device__ __forceinline__ void walk_share(const Valid& row, int part, int parts, Tally& tally) {
  const int thread = threadIdx.x;
  const int shift = static_cast<int>(reinterpret_cast<unsigned long long>(row.scores) / sizeof(float) % VECTOR);
  const int loose = shift == 0 ? 0 : VECTOR - shift, head = loose < row.length ? loose : row.length;
  const int vectors = (row.length - head) / VECTOR, tail = (row.length - head) % VECTOR;
  const int share = ((vectors + parts - 1) / parts + THREADS - 1) / THREADS * THREADS;
  const long long begin = static_cast<long long>(part) * share;
  const int first = begin < vectors ? static_cast<int>(begin) : vectors;
  const int last = vectors - first < share ? vectors : first + share;
  const float4* all = reinterpret_cast<const float4*>(row.scores + head);
  for (int at = first + thread; at < last; at += LOADS * THREADS) {
    float4 held[LOADS];
#pragma unroll
    for (int turn = 0; turn < LOADS; ++turn) {
      if (turn * THREADS < last - at) held[turn] = load_once(all + at + turn * THREADS);
    }
#pragma unroll
    for (int turn = 0; turn < LOADS; ++turn) {
      if (turn * THREADS < last - at) tally.four(held[turn]);
    }
  }
  if (part == 0 && thread < head) tally.one(row.scores[thread]);
  if (part == parts - 1 && thread < tail) tally.one(row.scores[row.length - tail + thread]);
}

// Where the bin of some fp16 bits lies in the order of the scores.
__device__ __forceinline__ int in_order(int bin) {
  return bin < FINE_BINS / 2 ? bin + FINE_BINS / 2 : FINE_BINS - 1 - bin;
}

__device__ __forceinline__ bool is_nan_bin(int bin) { return bin % (FINE_BINS / 2) > (0x7C00 >> FINE_SHIFT); }

// Counts one of `parts` shares of a row; whether this block was the last one, and shared.numbers and shared.odd then
// hold what the whole row amounts to. All threads take part.
template <bool Least>
__device__ __forceinline__ bool census(const Valid& row, int k, int part, int parts, int* cells, float least,
                                       CensusShared& shared) {
  for (int bin = threadIdx.x; bin < FINE_BINS; bin += THREADS) {
    shared.counts.of[bin] = 0;
#pragma unroll
    for (int copy = 0; copy < COPIES - 1; ++copy) shared.copies[copy * FINE_BINS + bin] = 0;
  }
  if (threadIdx.x < ODD) shared.odd[threadIdx.x] = 0;
  __syncthreads();
  {
    Tally<Least> tally(shared, least);
    walk_share(row, part, parts, tally);
    tally.tell(shared);
  }
  __syncthreads();
  int held[EACH];
#pragma unroll
  for (int turn = 0; turn < EACH; ++turn) {
    const int bin = turn * THREADS + threadIdx.x;
    held[turn] = shared.counts.of[bin];
#pragma unroll
    for (int copy = 0; copy < COPIES - 1; ++copy) held[turn] += shared.copies[copy * FINE_BINS + bin];
  }
  if (parts > 1) {
#pragma unroll
    for (int turn = 0; turn < EACH; ++turn) {
      if (held[turn] != 0) atomicAdd(&cells[turn * THREADS + threadIdx.x], held[turn]);
    }
    if (threadIdx.x < ODD && shared.odd[threadIdx.x] != 0) {
      atomicAdd(&cells[FINE_BINS + threadIdx.x], shared.odd[threadIdx.x]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.last = atomicAdd(&cells[FINE_BINS + ODD], 1) == parts - 1;
    __syncthreads();
    if (!shared.last) return false;
    __threadfence();
#pragma unroll
    for (int turn = 0; turn < EACH; ++turn) held[turn] = load_now(&cells[turn * THREADS + threadIdx.x]);
    if (threadIdx.x < ODD) shared.odd[threadIdx.x] = load_now(&cells[FINE_BINS + threadIdx.x]);
  }
  __syncthreads();
  int nan = 0;
#pragma unroll
  for (int turn = 0; turn < EACH; ++turn) {
    const int bin = static_cast<int>(place_of(turn * THREADS + threadIdx.x));
    shared.counts.of[in_order(bin)] = is_nan_bin(bin) ? 0 : held[turn];
    nan += is_nan_bin(bin) ? held[turn] : 0;
  }
  block_exclusive_sum(nan, shared.counts.sums);
  nan = shared.counts.sums[WARPS];
  if (threadIdx.x == 0) shared.counts.of[FINE_BINS - 1] = nan;
  Located fine{-1, 0, 0, 0};
  if (row.length > k) fine = locate(shared.counts, FINE_BINS, k);
  if (threadIdx.x < Widths::COUNT) {
    Located at = fine;
    if (row.length > k) {
      const int shift = FINE_BITS - Widths::at(threadIdx.x);
      at.bin = fine.bin >> shift;
      at.population = 0;
      for (int bin = at.bin << shift; bin < (at.bin + 1) << shift; ++bin) {
        at.population += shared.counts.of[bin];
        at.above -= bin > fine.bin ? shared.counts.of[bin] : 0;
      }
      at.need = k - at.above;
    }
    shared.numbers.at[threadIdx.x] = at;
  }
  if (threadIdx.x == 0) {
    shared.numbers.length = row.length;
    shared.numbers.nan = nan;
    shared.numbers.minus_infinity = shared.odd[MINUS_INFINITY];
    shared.numbers.past_half = shared.odd[PAST_HALF];
  }
  __syncthreads();
  return true;
}

}  // namespace workbench
