// How the threads of a block walk a row: side by side, WORKBENCH_LOAD neighbouring scores at once.
#pragma once

#include "block.cuh"
#include "call.cuh"

namespace workbench {

constexpr int LOAD = WORKBENCH_LOAD;
static_assert(LOAD == 1 || LOAD == 2 || LOAD == 4, "threads load 1, 2 or 4 scores at once");

// The first of the scores that this thread loads in its `turn`-th load.
__device__ __forceinline__ unsigned first_of(unsigned turn) { return (turn * THREADS + threadIdx.x) * LOAD; }

// Loads Width scores from `first` on, in one go where they lie aligned; what is past the row's end is left out.
template <int Width>
__device__ __forceinline__ void load(const Row& row, unsigned first, float (&held)[Width]) {
  const float* from = row.scores + first;
  const bool whole = first + Width <= static_cast<unsigned>(row.length);
  if constexpr (Width == 4) {
    if (whole && reinterpret_cast<unsigned long long>(from) % sizeof(float4) == 0) {
      const float4 all = *reinterpret_cast<const float4*>(from);
      held[0] = all.x;
      held[1] = all.y;
      held[2] = all.z;
      held[3] = all.w;
      return;
    }
  } else if constexpr (Width == 2) {
    if (whole && reinterpret_cast<unsigned long long>(from) % sizeof(float2) == 0) {
      const float2 all = *reinterpret_cast<const float2*>(from);
      held[0] = all.x;
      held[1] = all.y;
      return;
    }
  }
#pragma unroll
  for (int at = 0; at < Width; ++at) {
    held[at] = first + at < static_cast<unsigned>(row.length) ? from[at] : 0.0f;
  }
}

// The scores of a row that one thread visits: in registers (Items of them), or read again for each visit (0).
template <int Items>
class Scores {
  static_assert(Items % LOAD == 0, "registers hold whole loads");

 public:
  __device__ __forceinline__ explicit Scores(const Row& row) : length_(row.length) {
#pragma unroll
    for (int turn = 0; turn < Items / LOAD; ++turn) {
      float held[LOAD];
      load(row, first_of(turn), held);
#pragma unroll
      for (int at = 0; at < LOAD; ++at) held_[turn * LOAD + at] = held[at];
    }
  }

  // Whether the registers of a block hold a row of this length.
  __device__ static constexpr bool holds(int length) { return length <= Items * THREADS; }

  // Calls visit(index, score) for each score of this thread.
  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) const {
#pragma unroll
    for (int turn = 0; turn < Items / LOAD; ++turn) {
#pragma unroll
      for (int at = 0; at < LOAD; ++at) {
        const int index = static_cast<int>(first_of(turn)) + at;
        if (index < length_) visit(index, anew(held_[turn * LOAD + at]));
      }
    }
  }

 private:
  float held_[Items];
  int length_;
};

template <>
class Scores<0> {
 public:
  __device__ __forceinline__ explicit Scores(const Row& row) : row_(row) {}

  __device__ static constexpr bool holds(int) { return true; }

  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) const {
    for (unsigned turn = 0; first_of(turn) < static_cast<unsigned>(row_.length); ++turn) {
      float held[LOAD];
      load(row_, first_of(turn), held);
#pragma unroll
      for (int at = 0; at < LOAD; ++at) {
        const int index = static_cast<int>(first_of(turn)) + at;
        if (index < row_.length) visit(index, held[at]);
      }
    }
  }

 private:
  const Row row_;
};

}  // namespace workbench
