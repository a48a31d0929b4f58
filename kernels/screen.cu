// Second step of screening a batch: each score read once, which tells whether one outside the selection is greater than
// the least inside, and what the threshold bins hold. The rule stands in workbench/record/screening.py. Rows that may be
// bad are copied, so that whoever called the selector may write over them.
#include "census.cuh"
#include "picked.cuh"

namespace workbench {

// A buffer that a row can overflow: workbench/record/screening.py.
struct Gate {
  int bits, capacity, ranked;
  int longer_than, up_to;  // lengths of the rows that are sent there
};
static_assert(sizeof(Gate) == 4 * WORKBENCH_GATE_INTS, "the buffers differ from those that the host hands on");

// Whether the threshold bin overflows a buffer and holds winners above the least one, or ranks may run out.
__device__ __forceinline__ bool overflows(const Numbers& numbers, const Gate& gate, int greater) {
  if (numbers.length <= gate.longer_than || numbers.length > gate.up_to) return false;
  for (int place = 0; place < Widths::COUNT; ++place) {
    const Located& at = numbers.at[place];
    if (Widths::at(place) != gate.bits || at.population <= gate.capacity) continue;
    if (gate.ranked || greater > at.above) return true;
  }
  return false;
}

}  // namespace workbench

WORKBENCH_SHARED_BYTES(workbench::CensusShared)

// `parts` blocks a row. flags: [rows], each written. kept: [rows, width], rows that lie together, of which those that may
// be bad are written; none where the caller keeps them.
extern "C" __global__ void __launch_bounds__(WORKBENCH_THREADS, WORKBENCH_RESIDENT) workbench_screen(
    const float* scores, long long stride, int width, const int* lengths, const int* starts, int k, int parts,
    int* workspace, const int* picked, const int* gates, int gate_count, int* flags, float* kept) {
  using namespace workbench;
  WORKBENCH_DYNAMIC_SHARED(memory);
  CensusShared& shared = *reinterpret_cast<CensusShared*>(memory);
  const int number = static_cast<int>(blockIdx.x) / parts, part = static_cast<int>(blockIdx.x) % parts;
  const Valid row = valid_of(scores, stride, width, lengths, starts, number);
  const Picked seen = reinterpret_cast<const Picked*>(picked)[number];
  int* cells = workspace + static_cast<long long>(number) * CELLS;
  if (!census<true>(row, k, part, parts, cells, seen.least, shared)) return;
  if (threadIdx.x == 0) {
    // Selected scores that are no numbers make the row bad in any case, so that the others account for all of these.
    bool bad = seen.bad || shared.odd[GREATER] != seen.greater;
    for (int at = 0; at < gate_count && row.length > k; ++at) {
      bad = bad || overflows(shared.numbers, reinterpret_cast<const Gate*>(gates)[at], seen.greater);
    }
    flags[number] = bad;
    shared.last = bad;
  }
  __syncthreads();
  if (!shared.last || kept == nullptr) return;
  const float* from = scores + number * stride;
  float* to = kept + static_cast<long long>(number) * width;
#pragma unroll 8
  for (int at = threadIdx.x; at < width; at += THREADS) to[at] = from[at];
}
