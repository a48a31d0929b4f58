// The fixed buffer that holds members of the threshold bin by their indices, and the exact cut inside it.
#pragma once

#include "search.cuh"

namespace workbench {

// Shared memory of a buffer of up to Slots members. Two of them, since a refinement writes what it keeps anew.
template <int Slots, int Ranked>
struct Candidates {
  int members[2][Slots];
  int count[2];
  int equal;
  unsigned keys[Ranked > 0 ? Ranked : 1];

  __device__ __forceinline__ void empty() {
    if (threadIdx.x == 0) count[0] = 0;
  }

  // Whether there was room. The counter counts on past it.
  __device__ __forceinline__ bool store(int index, int room) {
    const int slot = take_slot(&count[0]);
    if (slot < room) members[0][slot] = index;
    return slot < room;
  }

  // How many were stored.
  __device__ __forceinline__ int stored(int room) const { return count[0] < room ? count[0] : room; }

  // Ranks up to Ranked members by (value, smaller index) and calls visit(rank, index, key) for each.
  template <class KeyOf, class Visit>
  __device__ __forceinline__ void rank(int stored, KeyOf key_of, Visit visit) {
#pragma unroll 1
    for (int at = threadIdx.x; at < stored; at += THREADS) keys[at] = key_of(members[0][at]);
    __syncthreads();
#pragma unroll 1
    for (int at = threadIdx.x; at < stored; at += THREADS) {
      const int index = members[0][at];
      int better = 0;
      for (int other = 0; other < stored; ++other) {
        better += keys[other] > keys[at] || (keys[other] == keys[at] && members[0][other] < index);
      }
      visit(better, index, keys[at]);
    }
  }

  // Takes the `need` best of the stored members by digits of their keys; those equal in all digits first come.
  template <class Digits, int Bins, class Taker, class KeyOf>
  __device__ __forceinline__ void refine(int stored, int need, Counts<Bins>& counts, const Taker& output,
                                         Recorder& recorder, KeyOf key_of) {
    int from = 0, shift = KEY_BITS;
    Digits::each([&](int bits) {
      shift -= bits;
      const unsigned mask = (1u << bits) - 1u;
      clear(counts, 1 << bits);
#pragma unroll 1
      for (int at = threadIdx.x; at < stored; at += THREADS) {
        atomicAdd(&counts.of[(key_of(members[from][at]) >> shift) & mask], 1);
      }
      if (threadIdx.x == 0) count[1 - from] = 0;
      const Located found = locate(counts, 1 << bits, need);
      recorder.pass(shift, bits, stored, need, found.bin, found.above, found.population);
#pragma unroll 1
      for (int at = threadIdx.x; at < stored; at += THREADS) {
        const int index = members[from][at];
        const int digit = (key_of(index) >> shift) & mask;
        if (digit > found.bin) {
          output.take(index);
        } else if (digit == found.bin) {
          members[1 - from][take_slot(&count[1 - from])] = index;
        }
      }
      __syncthreads();
      from = 1 - from;
      stored = found.population;
      need = found.need;
      return need < stored;
    });
#pragma unroll 1
    for (int at = threadIdx.x; at < need; at += THREADS) output.take(members[from][at]);
  }

  // The `need` best of the stored members: all, ranked while they are few, or refined.
  template <class Digits, int Bins, class KeyOf>
  __device__ __forceinline__ void cut(int stored, int need, Counts<Bins>& counts, const Output& output,
                                      Recorder& recorder, KeyOf key_of) {
    if (stored <= need) {
#pragma unroll 1
      for (int at = threadIdx.x; at < stored; at += THREADS) output.take(members[0][at]);
    } else if (stored <= Ranked) {
      rank(stored, key_of, [&](int better, int index, unsigned) {
        if (better < need) output.take(index);
      });
    } else {
      refine<Digits>(stored, need, counts, output, recorder, key_of);
    }
  }
};

// How many slots the buffer of a call has.
__device__ __forceinline__ int room_of(int k) {
  if constexpr (WORKBENCH_CAPACITY > 0) return WORKBENCH_CAPACITY;
  return k > WORKBENCH_CAPACITY_LEAST ? k : WORKBENCH_CAPACITY_LEAST;
}

}  // namespace workbench
