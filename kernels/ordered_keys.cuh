// Integer keys whose unsigned order is the order of the scores, as workbench/numeric/keys.py defines them.
// Only what NVRTC knows by itself is used: no host headers.
#pragma once

#include <cuda_fp16.h>

namespace workbench {

// Exact key of a float32 score: the bit pattern with the sign folded in. -0.0 lies just below +0.0.
__device__ __forceinline__ unsigned ordered_key(float score) {
  const unsigned bits = __float_as_uint(score);
  return (bits & 0x80000000u) ? ~bits : (bits | 0x80000000u);
}

// Ordered key of the score rounded to fp16 (to nearest, ties to even). Every NaN becomes 0xFFFF.
__device__ __forceinline__ unsigned half_key(float score) {
  const unsigned bits = __half_as_ushort(__float2half_rn(score));
  return (bits & 0x8000u) ? (~bits & 0xFFFFu) : (bits | 0x8000u);
}

// The bin of a score under a coarse key of Bits bits (8 to 12).
template <int Bits>
__device__ __forceinline__ unsigned coarse_bin(float score) {
  static_assert(Bits > 0 && Bits <= 16, "a coarse key has 1 to 16 bits");
  return half_key(score) >> (16 - Bits);
}

}  // namespace workbench
