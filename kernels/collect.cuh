// What follows the coarse pass as released: higher bins to the output, the threshold bin into the buffer, first come,
// then an exact cut there.
#pragma once

#include "candidates.cuh"
#include "coarse.cuh"
#include "scores.cuh"

namespace workbench {

// Fills output and buffer; members that find no room are told as dropped unless they are kept by other means.
// Returns how many members the buffer stored. missed(index) is called by the thread that found no room.
template <class Scores, class Shared, class Bin, class Missed>
__device__ __forceinline__ int fill(const Coarse& seen, const Scores& scores, int room, Shared& shared,
                                    const Output& output, Bin bin, Missed missed) {
  shared.candidates.empty();
  __syncthreads();
  scores.sort(
      seen.buffered, output.written, [&](float score) { return bin(score) - seen.bin; },
      [&](int slot, int index) { output.place(slot, index); },
      [&](int index) {
        if (!shared.candidates.store(index, room)) missed(index);
      });
  __syncthreads();
  return shared.candidates.stored(room);
}

// As released, with the buffer's drops.
template <class Digits, class Scores, class Shared, class Bin, class KeyOf>
__device__ __forceinline__ void collect(const Coarse& seen, const Scores& scores, int room, Shared& shared,
                                        const Output& output, Recorder& recorder, Bin bin, KeyOf key_of) {
  const int stored = fill(seen, scores, room, shared, output, bin, [&](int index) { recorder.drop(index); });
  recorder.stored(seen.buffered, seen.buffered ? stored : seen.population);
  if (seen.buffered) shared.candidates.template cut<Digits>(stored, seen.need, shared.counts, output, recorder, key_of);
}

// Slots that no winner took: -1, or left as they are.
__device__ __forceinline__ void finish(const Output& output) {
  __syncthreads();
  if constexpr (!WORKBENCH_LEAVES_UNWRITTEN) {
#pragma unroll 1
    for (int slot = *output.written + threadIdx.x; slot < output.k; slot += THREADS) output.leave_empty(slot);
  }
}

}  // namespace workbench
