// Short rows of bfloat16 scores in registers: two exact bytes, or bins that are not looked at again. Model:
// workbench/paths/models/bf16.py.
#include "coarse.cuh"
#include "call.cuh"
#include "emission.cuh"
#include "search.cuh"

namespace workbench {

enum class Model { exact, approximate };

constexpr Model MODEL = Model::WORKBENCH_MODEL;
constexpr int WIDTH = 16;                                   // bits of an exact key
constexpr int ITEMS = WORKBENCH_ITEMS, LOAD = WORKBENCH_LOAD;  // scores of a thread, and of one load
constexpr unsigned NEGATIVE_ZERO_KEY = 0x7FFFu;
using Searched = Digits<WORKBENCH_DIGITS>;
constexpr int BINS = larger(MODEL == Model::approximate ? COARSE_BINS : 1, 1 << Searched::most());
static_assert(WORKBENCH_RANKED_TIES == 0 && WORKBENCH_CAPACITY_MOST == 1 && ITEMS % LOAD == 0, "registers hold the row");

struct Shared {
  Counts<BINS> counts;
  int written, equal;
};

// The bits of bfloat16 scores, two in a register.
class Held {
 public:
  __device__ __forceinline__ Held(const unsigned short* scores, int length) : length_(length) {
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      const int index = index_of(item);
      const unsigned bits = index < length ? scores[index] : 0u;
      if (item % 2 == 0) held_[item / 2] = bits;
      else held_[item / 2] |= bits << WIDTH;
    }
  }

  __device__ static constexpr bool holds(int length) { return length <= ITEMS * THREADS; }

  // Calls visit(index, score) for each score of this thread.
  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) const {
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
      const int index = index_of(item);
      const unsigned bits = item % 2 == 0 ? held_[item / 2] << WIDTH : held_[item / 2] & 0xFFFF0000u;
      if (index < length_) visit(index, anew(__uint_as_float(bits)));
    }
  }

 private:
  __device__ __forceinline__ static int index_of(int item) {
    return (item / LOAD * THREADS + static_cast<int>(threadIdx.x)) * LOAD + item % LOAD;
  }

  unsigned held_[(ITEMS + 1) / 2];
  int length_;
};

// Scores against the k-th as numbers: no comparison takes a NaN, and zeros of both signs are equal.
__device__ __forceinline__ void exact(const Held& scores, int length, Shared& shared, const Output& output,
                                      Recorder& recorder) {
  Search at{0, 0, output.k, length};
  Searched::each([&](int bits) {
    narrow<WIDTH>(at, bits, shared.counts, recorder, [&](auto visit) {
      scores.each([&](int, float score) { visit(ordered_key(score) >> WIDTH); });
    });
    return true;
  });
  const float pivot = score_of((at.pivot << WIDTH) | (at.pivot < 0x8000u ? 0xFFFFu : 0u));
  scores.each([&](int index, float score) {
    if (score > pivot) output.take(index);
  });
  __syncthreads();
  const int need = at.pivot == NEGATIVE_ZERO_KEY ? output.k - shared.written : at.need;
  __syncthreads();
  scores.each([&](int index, float score) {
    if (score == pivot && take_slot(&shared.equal) < need) output.take(index);
  });
}

__device__ __forceinline__ void approximate(const Held& scores, int number, Shared& shared, const Output& output,
                                            const Books& books, Recorder& recorder) {
  const auto bin = [](float score) { return bin_of(score); };
  const Coarse seen = coarse_pass(scores, output.k, shared.counts, books, number, recorder, bin);
  recorder.stored(seen.buffered, seen.need);
  scores.each([&](int index, float score) {
    const int at = bin(score);
    if (at > seen.bin) {
      output.take(index);
    } else if (at == seen.bin) {
      if (take_slot(&shared.equal) < seen.need) output.take(index);
      else recorder.drop(index);
    }
  });
}

__device__ __forceinline__ void select(const Call& call, int number, Shared& shared) {
  if (!call.takes(number)) return;
  const Row row = call.row(number);
  const Output output = call.output(number, &shared.written);
  if (row.length <= call.k) return output.whole(row.length);
  if (!Held::holds(row.length)) return;
  if (threadIdx.x == 0) shared.written = shared.equal = 0;
  Recorder recorder(call.books, number);
  const auto* all = reinterpret_cast<const unsigned short*>(call.scores);
  const Held scores(all + number * call.stride + row.start, row.length);
  if constexpr (MODEL == Model::exact) exact(scores, row.length, shared, output, recorder);
  else approximate(scores, number, shared, output, call.books, recorder);
  __syncthreads();
  for (int slot = shared.written + threadIdx.x; slot < call.k; slot += THREADS) output.leave_empty(slot);
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
