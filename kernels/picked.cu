// First step of screening a batch: looks at each row's selection, and clears the workspace that the second step counts
// in. The rule stands in workbench/record/screening.py.
#include "census.cuh"
#include "picked.cuh"
#include "seen.cuh"

namespace workbench {

struct PickedShared {
  int seen[SLOTS];
  unsigned least;
  int inside, unique, greater, bad;
};

}  // namespace workbench

WORKBENCH_SHARED_BYTES(workbench::PickedShared)

// One block a row. selected: [rows, k], which lie together. offsets: what its positions were moved by; none as a rule.
extern "C" __global__ void __launch_bounds__(WORKBENCH_THREADS) workbench_picked(
    const float* scores, long long stride, int width, const int* lengths, const int* starts, const int* selected,
    const int* offsets, int k, int cells_to_clear, int* workspace, int* picked) {
  using namespace workbench;
  WORKBENCH_DYNAMIC_SHARED(memory);
  PickedShared& shared = *reinterpret_cast<PickedShared*>(memory);
  const int number = blockIdx.x;
  const Valid row = valid_of(scores, stride, width, lengths, starts, number);
  int* cells = workspace + static_cast<long long>(number) * CELLS;
  for (int at = threadIdx.x; at < cells_to_clear; at += THREADS) cells[at] = 0;
  for (int at = threadIdx.x; at < SLOTS; at += THREADS) shared.seen[at] = FREE;
  if (threadIdx.x == 0) {
    shared.least = ordered_key(__uint_as_float(0x7F800000u));
    shared.inside = shared.unique = shared.greater = 0;
    shared.bad = !row.given;
  }
  __syncthreads();
  const int* own = selected + static_cast<long long>(number) * k;
  const int wanted = row.length < k ? row.length : k;
  const long long moved = offsets == nullptr ? 0 : offsets[number];
  for (int slot = threadIdx.x; slot < k; slot += THREADS) {
    const long long position = own[slot] < 0 ? own[slot] : own[slot] - moved;
    if (position < -1 || position >= row.length) raise(&shared.bad);
    if (position < 0 || position >= row.length) continue;
    const float score = row.scores[position];
    if (!(fabsf(score) <= 3.402823466e38f)) raise(&shared.bad);
    if (score == score) atomicMin(&shared.least, ordered_key(score));
    if (slot < wanted) atomicAdd(&shared.inside, 1);
    if (is_new(shared.seen, static_cast<int>(position))) atomicAdd(&shared.unique, 1);
  }
  __syncthreads();
  const float least = score_of(shared.least);
  for (int slot = threadIdx.x; slot < k; slot += THREADS) {
    const long long position = own[slot] < 0 ? own[slot] : own[slot] - moved;
    if (position >= 0 && position < row.length && row.scores[position] > least) atomicAdd(&shared.greater, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const bool bad = shared.bad || shared.inside != wanted || shared.unique != wanted;
    reinterpret_cast<Picked*>(picked)[number] = {least, shared.greater, bad};
  }
}
