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

// Sorts scores that a thread holds in registers at once, from its load `turn` on. Each becomes a bit first, and is handled
// after that in a loop of few instructions: a kernel that runs its code once waits for the code itself. against(score) is
// greater than 0 for a winner, and 0 for a member, which wins too where members are not `buffered`. Then winner(slot,
// index) is called, and member(index) as the warp walks. All threads take part.
template <int Count, class Against, class Winner, class Member>
__device__ __forceinline__ void sort(const float* held, unsigned turn, int length, bool buffered, int* written,
                                     Against against, Winner winner, Member member) {
  static_assert(Count <= 32 && Count % LOAD == 0, "a word has a bit for each score");
  constexpr int STEP = THREADS * LOAD;
  const unsigned first = first_of(turn), end = static_cast<unsigned>(length);
  const int left = first < end ? static_cast<int>(end - first) : 0;  // of the row, from this thread's first on
  unsigned winners = 0, members = 0;
#pragma unroll
  for (int at = 0; at < Count; at += LOAD) {
    if (left <= at / LOAD * STEP) break;
#pragma unroll
    for (int one = at; one < at + LOAD; ++one) {
      const int order = against(anew(held[one]));
      if (order > 0) winners |= 1u << one;
      if (order == 0) members |= 1u << one;
    }
  }
  const int last = left > 0 ? (left - 1) / STEP : 0, rest = left - last * STEP;  // of the last load, which may be cut
  const int valid = left > 0 ? last * LOAD + (rest < LOAD ? rest : LOAD) : 0;
  const unsigned own = valid >= 32 ? 0xFFFFFFFFu : (1u << valid) - 1u;
  if (!buffered) {
    winners |= members;
    members = 0;
  }
  winners &= own;
  members &= own;
  const auto index_of = [&](int at) { return static_cast<int>(first_of(turn + at / LOAD)) + at % LOAD; };
  int slot = take_slots(written, __popc(winners));
#pragma unroll 1
  for (; winners != 0; winners &= winners - 1) winner(slot++, index_of(__ffs(winners) - 1));
#pragma unroll 1
  for (unsigned any = or_of_lanes(members); any != 0; any &= any - 1) {  // as the warp walks, whoever has one
    const int at = __ffs(any) - 1;
    if (members >> at & 1) member(index_of(at));
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
      if (first_of(turn) >= static_cast<unsigned>(length_)) break;
#pragma unroll
      for (int at = 0; at < LOAD; ++at) {
        const int index = static_cast<int>(first_of(turn)) + at;
        if (index < length_) visit(index, anew(held_[turn * LOAD + at]));
      }
    }
  }

  // All scores of the row, as above.
  template <class Against, class Winner, class Member>
  __device__ __forceinline__ void sort(bool buffered, int* written, Against against, Winner winner,
                                       Member member) const {
    constexpr int MARKED = Items < 32 ? Items : 32;
    static_assert(Items % MARKED == 0, "words are full, or there is but one");
#pragma unroll
    for (int from = 0; from < Items; from += MARKED) {
      workbench::sort<MARKED>(held_ + from, from / LOAD, length_, buffered, written, against, winner, member);
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
    for (unsigned turn = 0; first_of(turn) < static_cast<unsigned>(row_.length); turn += AHEAD / LOAD) {
      float held[AHEAD];
      bring(turn, held);
#pragma unroll
      for (int at = 0; at < AHEAD; ++at) {
        const int index = static_cast<int>(first_of(turn + at / LOAD)) + at % LOAD;
        if (index < row_.length) visit(index, held[at]);
      }
    }
  }

  // All scores of the row, as above.
  template <class Against, class Winner, class Member>
  __device__ __forceinline__ void sort(bool buffered, int* written, Against against, Winner winner,
                                       Member member) const {
    for (unsigned turn = 0; turn * (THREADS * LOAD) < static_cast<unsigned>(row_.length); turn += SORTED / LOAD) {
      float held[SORTED];
      bring(turn, held);
      workbench::sort<SORTED>(held, turn, row_.length, buffered, written, against, winner, member);
    }
  }

 private:
  static constexpr int AHEAD = 4, SORTED = 8;  // loads that do not wait for each other

  template <int Count>
  __device__ __forceinline__ void bring(unsigned turn, float (&all)[Count]) const {
#pragma unroll
    for (int one = 0; one < Count / LOAD; ++one) {
      float held[LOAD];
      load(row_, first_of(turn + one), held);
#pragma unroll
      for (int at = 0; at < LOAD; ++at) all[one * LOAD + at] = held[at];
    }
  }

  const Row row_;
};

}  // namespace workbench
