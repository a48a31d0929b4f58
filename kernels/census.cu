// Counts of every row of a batch, without selecting: what workbench/analysis/profile.py works out of one row.
#include "census.cuh"

WORKBENCH_SHARED_BYTES(workbench::CensusShared)

// `parts` blocks a row, side by side. workspace: [rows, CELLS], zeroed; not touched where one block serves a row.
extern "C" __global__ void __launch_bounds__(WORKBENCH_THREADS, WORKBENCH_RESIDENT) workbench_census(
    const float* scores, long long stride, int width, const int* lengths, const int* starts, int k, int parts,
    int* workspace, int* numbers) {
  using namespace workbench;
  WORKBENCH_DYNAMIC_SHARED(memory);
  CensusShared& shared = *reinterpret_cast<CensusShared*>(memory);
  const int number = static_cast<int>(blockIdx.x) / parts, part = static_cast<int>(blockIdx.x) % parts;
  const Valid row = valid_of(scores, stride, width, lengths, starts, number);
  int* cells = workspace + static_cast<long long>(number) * CELLS;
  if (!census<false>(row, k, part, parts, cells, 0.0f, shared)) return;
  const int* told = reinterpret_cast<const int*>(&shared.numbers);
  if (threadIdx.x < WORKBENCH_CENSUS_INTS) {
    numbers[static_cast<long long>(number) * WORKBENCH_CENSUS_INTS + threadIdx.x] = told[threadIdx.x];
  }
}
