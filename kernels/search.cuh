// Exact selection digit by digit, over whatever can be visited: a row, a filter of it, or sampled scores.
#pragma once

#include "emission.cuh"
#include "histogram.cuh"
#include "ordered_keys.cuh"
#include "telemetry.cuh"

namespace workbench {

// Bits of the digits of a search, from the top. visit(bits) returns whether to go on. One body serves all digits: they
// are packed into a number that the loop shifts.
template <int... Bits>
struct Digits {
  __host__ __device__ static constexpr int most() {
    int greatest = 0;
    ((greatest = larger(greatest, Bits)), ...);
    return greatest;
  }

  __host__ __device__ static constexpr int first() { return static_cast<int>(packed() & 15); }

  __host__ __device__ static constexpr unsigned long long packed() {
    unsigned long long all = 0;
    int place = 0;
    ((all |= static_cast<unsigned long long>(Bits) << (4 * place++)), ...);
    return all;
  }

  template <class Visit>
  __device__ __forceinline__ static void each(Visit visit) {
    static_assert(sizeof...(Bits) <= 16 && most() < 16, "at most 16 digits of at most 15 bits");
#pragma unroll 1
    for (unsigned long long left = packed(); left != 0 && visit(static_cast<int>(left & 15)); left >>= 4) {
    }
  }
};

// Where a search stands: workbench/paths/models/digits.py. All threads hold the same.
struct Search {
  unsigned pivot;  // key of the last winner, as far as it was searched; lower bits are 0
  int searched;    // how many of its bits
  int need;        // how many of those with the pivot's prefix are wanted still
  int equal;       // how many of those there are
};

// Goes on by the next `bits` bits of keys of Width bits, whose values among the candidates are counted.
template <int Width, class Tally>
__device__ __forceinline__ void advance(Search& at, int bits, Tally& counts, Recorder& recorder, int shift_told = 0,
                                        bool told = true) {
  const int shift = Width - at.searched - bits;
  const Located found = locate(counts, 1 << bits, at.need);
  if (told) recorder.pass(shift + shift_told, bits, at.equal, at.need, found.bin, found.above, found.population);
  at.pivot |= static_cast<unsigned>(found.bin) << shift;
  at.searched += bits;
  at.need = found.need;
  at.equal = found.population;
}

// Searches the next `bits` bits of keys of Width bits. each(visit) calls visit(key) for the candidates of this thread.
template <int Width, class Tally, class Each>
__device__ __forceinline__ void narrow(Search& at, int bits, Tally& counts, Recorder& recorder, Each each,
                                       int shift_told = 0, bool told = true) {
  const int shift = Width - at.searched - bits;
  const unsigned prefix = prefix_of(at.pivot, shift + bits), mask = (1u << bits) - 1u;
  clear(counts, 1 << bits);
  each([&](unsigned key) {
    if (prefix_of(key, shift + bits) == prefix) atomicAdd(&counts.of[(key >> shift) & mask], 1);
  });
  advance<Width>(at, bits, counts, recorder, shift_told, told);
}

// Winners of a finished search: the greater keys, then as many of the equal as are wanted, first come.
// each(visit) calls visit(index, key) for the candidates of this thread; `equal` is a counter of shared memory.
template <int Width, class Each>
__device__ __forceinline__ void emit(const Search& at, const Output& output, int* equal, Each each) {
  const int shift = Width - at.searched;
  const unsigned pivot = prefix_of(at.pivot, shift);
  __syncthreads();
  if (threadIdx.x == 0) *equal = 0;
  __syncthreads();
  each([&](int index, unsigned key) {
    const unsigned prefix = prefix_of(key, shift);
    if (prefix > pivot) {
      output.take(index);
    } else if (prefix == pivot && take_slot(equal) < at.need) {
      output.take(index);
    }
  });
}

}  // namespace workbench
