// The table of a row's kept blocks: selected ids in ascending order, by a bitmap that is counted. Described in
// workbench/paths/blocks.py, `candidate_blocks`.
#include "block.cuh"
#include "platform.cuh"

namespace workbench {

constexpr int BLOCK = WORKBENCH_BLOCK;      // scores
constexpr int BITMAP = WORKBENCH_BITMAP;    // ids that it has bits for
constexpr int WORD = 32, WORDS = BITMAP / WORD, EACH = WORDS / THREADS;
constexpr int PADDING = 0x7FFFFFFF;
static_assert(WORDS % THREADS == 0, "every thread counts as many words");

struct Shared {
  unsigned bits[WORDS];
  int sums[WARPS + 1];
  int outside;
};

__device__ __forceinline__ int bits_of(unsigned word) {
  int count = 0;
  for (; word != 0; word &= word - 1) ++count;
  return count;
}

}  // namespace workbench

WORKBENCH_SHARED_BYTES(workbench::Shared)

// One block a row of k ids, negative where empty, which are all read before any is written: `out` may be `selected`.
// Ids that the bitmap has no bit for are left out and counted; nothing is written past it.
extern "C" __global__ void __launch_bounds__(WORKBENCH_THREADS) workbench_candidate_blocks(
    const int* selected, const int* lengths, int k, int* out, int* outside) {
  using namespace workbench;
  WORKBENCH_DYNAMIC_SHARED(memory);
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int length = lengths[blockIdx.x] > 0 ? lengths[blockIdx.x] : 0, count = length / BLOCK + (length % BLOCK != 0);
  const int* ids = selected + static_cast<long long>(blockIdx.x) * k;
  int* table = out + static_cast<long long>(blockIdx.x) * k;
  if (count <= k) {  // whatever was selected
    for (int slot = threadIdx.x; slot < k; slot += THREADS) table[slot] = slot < count ? slot : PADDING;
    if (threadIdx.x == 0) outside[blockIdx.x] = 0;
    return;
  }
  if (threadIdx.x == 0) shared.outside = 0;
  for (int word = threadIdx.x; word < WORDS; word += THREADS) shared.bits[word] = 0u;
  __syncthreads();
  for (int slot = threadIdx.x; slot < k; slot += THREADS) {
    const int id = ids[slot];
    if (id >= BITMAP) atomicAdd(&shared.outside, 1);
    else if (id >= 0) atomicOr(&shared.bits[id / WORD], 1u << id % WORD);
  }
  __syncthreads();
  const int first = static_cast<int>(threadIdx.x) * EACH;
  int own = 0;
  for (int word = first; word < first + EACH; ++word) own += bits_of(shared.bits[word]);
  int slot = block_exclusive_sum(own, shared.sums);
  for (int word = first; word < first + EACH; ++word) {
    for (int bit = 0; bit < WORD; ++bit) {
      if (shared.bits[word] >> bit & 1u) table[slot++] = word * WORD + bit;
    }
  }
  for (int rest = shared.sums[WARPS] + threadIdx.x; rest < k; rest += THREADS) table[rest] = PADDING;
  if (threadIdx.x == 0) outside[blockIdx.x] = shared.outside;
}
