// The blocks of a cluster on one row: how they wait for each other and reach each other's shared memory, what part of
// the row each reads, and what they count together. A block is a rank; the first one leads.
#pragma once

#include "histogram.cuh"
#include "scores.cuh"

#ifndef WORKBENCH_HOST

namespace workbench {

__device__ __forceinline__ int cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// All threads of the cluster are together afterwards, and see what any of them wrote before, in any memory. No block may
// end before the last that reaches into its shared memory has been through such a barrier.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// Where a word of this block's shared memory lies in that of another rank.
__device__ __forceinline__ unsigned there(const int* mine, int rank) {
  unsigned place;
  const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(mine));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(here), "r"(rank));
  return place;
}

__device__ __forceinline__ int load_from(const int* mine, int rank) {
  int value;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(there(mine, rank)) : "memory");
  return value;
}

__device__ __forceinline__ void store_to(int* mine, int rank, int value) {
  asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(there(mine, rank)), "r"(value) : "memory");
}

// What was there before.
__device__ __forceinline__ int add_to(int* mine, int rank, int value) {
  int before;
  asm volatile("atom.relaxed.cluster.shared::cluster.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(there(mine, rank)), "r"(value)
               : "memory");
  return before;
}

}  // namespace workbench

#endif

namespace workbench {

enum class Layout { contiguous, interleaved };  // slices of the row, or runs dealt out in turn

constexpr Layout LAYOUT = Layout::WORKBENCH_LAYOUT;
constexpr int RANKS = WORKBENCH_RANKS;
constexpr int RANK_ROOM = WORKBENCH_RANK_CAPACITY;  // members that one rank stores
constexpr unsigned UNIT = WORKBENCH_RANK_UNIT;      // scores that are never parted
constexpr int LEADER = 0;
static_assert(WORKBENCH_ITEMS == 0, "no block keeps its part of the row in registers");
static_assert(RANKS >= 2 && RANKS <= 16, "a cluster has 2 to 16 blocks");

// The scores of a row that one rank reads: workbench/paths/spec.py, `Ranks`.
class Part {
 public:
  __device__ __forceinline__ Part(const Row& row, int rank) : row_(row) {
    const unsigned length = row.length, runs = length / UNIT, mine = rank;
    if constexpr (LAYOUT == Layout::contiguous) {
      const unsigned slice = (length + UNIT * RANKS - 1) / (UNIT * RANKS) * UNIT;
      first_ = mine * slice;
      count_ = first_ >= length ? 0 : length - first_ < slice ? length - first_ : slice;
    } else {
      first_ = mine * UNIT;
      count_ = (runs / RANKS + (mine < runs % RANKS)) * UNIT + (mine == runs % RANKS ? length % UNIT : 0);
    }
  }

  __device__ __forceinline__ unsigned count() const { return count_; }

  // Where in the row the at-th of them lies.
  __device__ __forceinline__ int index_of(unsigned at) const {
    if constexpr (LAYOUT == Layout::contiguous) return static_cast<int>(first_ + at);
    return static_cast<int>(first_ + at + at / UNIT * (UNIT * (RANKS - 1)));
  }

  // Calls visit(at, held) for the scores of this thread from the from-th of the part on: Width neighbours at once, of
  // which those from count() on are none. So many loads are under way at a time.
  template <int Width, int Loads = 4, class Visit>
  __device__ __forceinline__ void walk(unsigned from, Visit visit) const {
    static_assert(UNIT % Width == 0, "neighbours belong to one rank");
    constexpr unsigned STEP = THREADS * Width;
    for (unsigned first = from + threadIdx.x * Width; first < count_; first += Loads * STEP) {
      float held[Loads][Width];
#pragma unroll
      for (int turn = 0; turn < Loads; ++turn) {
        if (first + turn * STEP < count_) load(row_, index_of(first + turn * STEP), held[turn]);
      }
#pragma unroll
      for (int turn = 0; turn < Loads; ++turn) {
        if (first + turn * STEP < count_) visit(first + turn * STEP, held[turn]);
      }
    }
  }

  // Calls visit(index, score) for the scores of this thread, from the from-th of the part on.
  template <int Width, int Loads = 4, class Visit>
  __device__ __forceinline__ void each_from(unsigned from, Visit visit) const {
    walk<Width, Loads>(from, [&](unsigned at, const float(&held)[Width]) {
      const int index = index_of(at);
#pragma unroll
      for (int place = 0; place < Width; ++place) {
        if (at + place < count_) visit(index + place, held[place]);
      }
    });
  }

  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) const {
    each_from<LOAD>(0, visit);
  }

 private:
  const Row row_;
  unsigned first_, count_;
};

// Counts of a cluster: each rank counts for itself, then all of them hold the sums.
template <int Bins>
struct Gathered {
  int of[Bins];
  Counts<Bins> all;
};

template <int Bins>
__device__ __forceinline__ void clear(Gathered<Bins>& counts, int bins) {
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += THREADS) counts.of[bin] = 0;
  __syncthreads();
}

// Every rank adds up its share of the bins and tells the sums to all.
template <int Bins>
__device__ __forceinline__ void gather(Gathered<Bins>& counts, int bins) {
  cluster_sync();
  const int share = (bins + RANKS - 1) / RANKS, first = cluster_rank() * share;
  for (int bin = first + threadIdx.x; bin < first + share && bin < bins; bin += THREADS) {
    int sum = 0;
#pragma unroll
    for (int rank = 0; rank < RANKS; ++rank) sum += load_from(&counts.of[bin], rank);
#pragma unroll
    for (int rank = 0; rank < RANKS; ++rank) store_to(&counts.all.of[bin], rank, sum);
  }
  cluster_sync();
}

// As for the counts of a block; all threads of the cluster take part and hold the same.
template <int Bins>
__device__ __forceinline__ Located locate(Gathered<Bins>& counts, int bins, int rank) {
  gather(counts, bins);
  return locate(counts.all, bins, rank);
}

template <int Bins>
__device__ __forceinline__ const int* sums_of(const Gathered<Bins>& counts) {
  return counts.all.of;
}

}  // namespace workbench
