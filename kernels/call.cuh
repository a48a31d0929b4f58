// One launch of a selector, and the row that a block serves.
#pragma once

#include "emission.cuh"
#include "telemetry.cuh"

namespace workbench {

// Length, start and scores of one row.
struct Row {
  const float* scores;  // the first valid one
  int length;           // a negative length, of a row that stands idle, is 0
  int start;            // cells before it in its row of the launch
};

// What every selector is given. Rows of scores lie `stride` apart.
struct Call {
  const float* scores;
  long long stride;
  int width, rows;  // padded columns
  const int* lengths;
  const int* starts;  // none where every row begins at 0
  int k;
  Emission emission;
  int blocks;  // that serve one row
  int* workspace;  // of blocks that share a row: [rows, WORKBENCH_ZEROED], 0 when the launch begins, and what follows
  Books books;
  const int* spans;  // [WORKBENCH_RESIDUES, 2]: the first and the last length of the rows that this launch takes, by
                     // where a row starts; none where it takes every row

  // Whether the row is this launch's: of these lengths, and inside its cells. Others are left as they are, so that each
  // of an op's paths can be launched over all rows, whose lengths the host does not know.
  __device__ __forceinline__ bool takes(int number) const {
    if (spans == nullptr) return true;
    const int start = starts == nullptr ? 0 : starts[number], length = lengths[number];
    const int* span = spans + 2 * (start % WORKBENCH_RESIDUES);
    return span[0] <= length && length <= span[1] && length <= width - start;
  }

  __device__ __forceinline__ Row row(int number) const {
    const int start = starts == nullptr ? 0 : starts[number];
    const int length = lengths[number];
    return {scores + number * stride + start, length > 0 ? length : 0, start};
  }

  __device__ __forceinline__ Output output(int number, int* written) const { return {emission, number, k, written}; }
};

}  // namespace workbench

#if WORKBENCH_RANKS > 0
#define WORKBENCH_TOGETHER __cluster_dims__(WORKBENCH_RANKS, 1, 1)
#else
#define WORKBENCH_TOGETHER
#endif

// The selector of a source: one block a row, or `blocks` side by side. select(call, block, shared) is what a block does.
#define WORKBENCH_SELECTOR(Shared, select)                                                                            \
  WORKBENCH_SHARED_BYTES(Shared)                                                                                      \
  extern "C" __global__ void WORKBENCH_TOGETHER __launch_bounds__(WORKBENCH_THREADS, WORKBENCH_RESIDENT) workbench_select(             \
      const float* scores, long long stride, int width, int rows, const int* lengths, const int* starts, int k,       \
      int* output, int* positions, long long output_stride, const int* tables, long long table_stride, int pages,     \
      int page_bits, const int* table_of, const int* offsets, int blocks, int* workspace, int* reports,               \
      int* histograms, int* dropped, int dropped_room, const int* spans) {                                            \
    WORKBENCH_DYNAMIC_SHARED(memory);                                                                                 \
    const workbench::Emission emission{output, positions, output_stride, tables, table_stride,                        \
                                       pages,  page_bits, table_of,      offsets};                                    \
    const workbench::Books books{reinterpret_cast<workbench::Report*>(reports), histograms, dropped, dropped_room};   \
    const workbench::Call call{scores, stride, width,    rows,   lengths,   starts,                                   \
                               k,      emission, blocks, workspace, books, spans};                                    \
    select(call, blockIdx.x, *reinterpret_cast<Shared*>(memory));                                                     \
  }
