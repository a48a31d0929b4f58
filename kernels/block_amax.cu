// The key of every block of neighbouring scores: their maximum, and +inf for a row's last block. Described in
// workbench/paths/blocks.py, `block_amax`.
#include "block.cuh"
#include "ordered_keys.cuh"

namespace workbench {

constexpr int BLOCK = WORKBENCH_BLOCK;       // scores
constexpr int EACH = WORKBENCH_KEYS_A_THREAD;
static_assert(BLOCK % 4 == 0, "a block is read four scores at once");

// Below every number, so that a NaN counts only among its like.
__device__ __forceinline__ unsigned number_key(float score) { return score == score ? ordered_key(score) : 0u; }

__device__ __forceinline__ float amax(const float* scores) {
  unsigned best = 0u;
  const bool aligned = reinterpret_cast<unsigned long long>(scores) % sizeof(float4) == 0;
#pragma unroll
  for (int at = 0; at < BLOCK; at += 4) {
    const float4 four = aligned ? *reinterpret_cast<const float4*>(scores + at)
                                : float4{scores[at], scores[at + 1], scores[at + 2], scores[at + 3]};
    const float held[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int place = 0; place < 4; ++place) {
      const unsigned key = number_key(held[place]);
      best = best > key ? best : key;
    }
  }
  return best == 0u ? __uint_as_float(0x7FFFFFFFu) : score_of(best);
}

}  // namespace workbench

// Blocks x rows. Keys of a row lie `out_stride` apart, of which only those of its blocks are written; none where there are
// at most `skip_up_to`. A length outside the row is taken as the nearest that is not.
extern "C" __global__ void __launch_bounds__(WORKBENCH_THREADS) workbench_block_amax(
    const float* scores, long long stride, int width, const int* lengths, int skip_up_to, float* out,
    long long out_stride) {
  using namespace workbench;
  const int given = lengths[blockIdx.y], length = given < 0 ? 0 : given < width ? given : width;
  const int count = length / BLOCK + (length % BLOCK != 0);
  if (count <= skip_up_to) return;
  for (int turn = 0; turn < EACH; ++turn) {
    const int key = (static_cast<int>(blockIdx.x) * EACH + turn) * THREADS + static_cast<int>(threadIdx.x);
    if (key >= count) return;
    const float* own = scores + blockIdx.y * stride + static_cast<long long>(key) * BLOCK;
    out[blockIdx.y * out_stride + key] = key == count - 1 ? __uint_as_float(0x7F800000u) : amax(own);
  }
}
