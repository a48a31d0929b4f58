// The blocks of a launch that share a row through global memory and wait for each other there: all of them must be
// resident at once, which a cooperative launch makes sure of.
#pragma once

#include "call.cuh"
#include "histogram.cuh"

namespace workbench {

constexpr int RING = 3;  // histograms in turn: one is counted, one may still be read, one is cleared
constexpr int GROUP_BINS = WORKBENCH_GROUP_BINS;
constexpr int GROUP_CELLS = RING * GROUP_BINS + 1;  // and how often a block arrived
static_assert(GROUP_CELLS == WORKBENCH_GROUP_CELLS, "the workspace differs from the one that the host makes");

// One block's view of its group. The group's cells are 0 when the launch begins; all its blocks go through the same
// waits and counts.
class Group {
 public:
  __device__ __forceinline__ Group(const Call& call, int block)
      : number(block / call.blocks),
        rank(block % call.blocks),
        blocks(call.blocks),
        groups(gridDim.x / call.blocks),
        cells_(call.workspace + static_cast<long long>(call.rows) * WORKBENCH_ZEROED +
               static_cast<long long>(number) * GROUP_CELLS) {}

  // All threads of the group are together afterwards, and see what any of them wrote before.
  __device__ __forceinline__ void wait() {
    int* arrived = cells_ + RING * GROUP_BINS;
    __syncthreads();
    awaited_ += blocks;
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1);
      while (load_now(arrived) < awaited_) pause();
      __threadfence();
    }
    __syncthreads();
  }

  // Adds up what each block counted, and gives all of them the sums.
  template <int Bins>
  __device__ __forceinline__ void gather(Counts<Bins>& counts, int bins) {
    static_assert(Bins <= GROUP_BINS, "a histogram of the ring holds all bins");
    int* sums = cells_ + turn_ * GROUP_BINS;
    turn_ = (turn_ + 1) % RING;
    int* next = cells_ + turn_ * GROUP_BINS;  // whose readers have been through the last wait
    __syncthreads();
    for (int bin = threadIdx.x; bin < bins; bin += THREADS) {
      if (counts.of[bin] != 0) atomicAdd(&sums[bin], counts.of[bin]);
    }
    if (rank == 0) {
      for (int bin = threadIdx.x; bin < GROUP_BINS; bin += THREADS) next[bin] = 0;
    }
    wait();
    for (int bin = threadIdx.x; bin < bins; bin += THREADS) counts.of[bin] = load_now(&sums[bin]);
  }

  const int number, rank, blocks, groups;

 private:
  int* cells_;
  int turn_ = 0, awaited_ = 0;
};

// What a group counts together; its threads hold the same.
template <int Bins>
struct Together {
  Counts<Bins>& counts;
  Group& group;
  int* of = counts.of;
};

template <int Bins>
__device__ __forceinline__ void clear(Together<Bins>& counts, int bins) {
  clear(counts.counts, bins);
}

template <int Bins>
__device__ __forceinline__ Located locate(Together<Bins>& counts, int bins, int rank) {
  counts.group.gather(counts.counts, bins);
  return locate(counts.counts, bins, rank);
}

// Counters of a row, which begin at 0.
__device__ __forceinline__ int* counters_of(const Call& call, int number) {
  return call.workspace + static_cast<long long>(number) * WORKBENCH_ZEROED;
}

// Further cells of a row, so many of each.
__device__ __forceinline__ int* cells_of(const Call& call, int number, int each) {
  const long long groups = gridDim.x / call.blocks;
  return call.workspace + static_cast<long long>(call.rows) * WORKBENCH_ZEROED + groups * GROUP_CELLS +
         static_cast<long long>(number) * each;
}

}  // namespace workbench
