// Integer keys whose unsigned order is the order of the scores, as workbench/numeric/keys.py defines them.
// Only what NVRTC knows by itself is used: no header of the host or of the toolkit.
#pragma once

#include "platform.cuh"

namespace workbench {

constexpr int KEY_BITS = 32;                                    // of the exact key
constexpr int HALF_BITS = 16;                                   // of the fp16 key
constexpr unsigned LEAST_NUMBER = 0x03FF, GREATEST_NUMBER = 0xFC00;  // fp16 keys of -inf and +inf; NaN lies beyond

// Exact key of a float32 score: the bit pattern with the sign folded in. -0.0 lies just below +0.0.
__device__ __forceinline__ unsigned ordered_key(float score) {
  const unsigned bits = __float_as_uint(score);
  return (bits & 0x80000000u) ? ~bits : (bits | 0x80000000u);
}

// A score whose zero has no sign. Adding 0.0f would do, but a GPU then gives NaN another bit pattern.
__device__ __forceinline__ float plain_zero(float score) { return score == 0.0f ? 0.0f : score; }

// The score of an exact key.
__device__ __forceinline__ float score_of(unsigned key) {
  return __uint_as_float((key & 0x80000000u) ? (key & 0x7FFFFFFFu) : ~key);
}

// Ordered key of the score rounded to fp16 (to nearest, ties to even). Every NaN becomes 0xFFFF.
__device__ __forceinline__ unsigned half_key(float score) {
  const unsigned bits = half_bits(score);
  return (bits & 0x8000u) ? (~bits & 0xFFFFu) : (bits | 0x8000u);
}

// The fp16 value of an ordered fp16 key.
__device__ __forceinline__ float half_key_value(unsigned key) {
  return half_value((key & 0x8000u) ? (key & 0x7FFFu) : (~key & 0xFFFFu));
}

// The bin of a score under a coarse key of Bits bits (8 to 12).
template <int Bits>
__device__ __forceinline__ unsigned coarse_bin(float score) {
  static_assert(Bits > 0 && Bits <= HALF_BITS, "a coarse key has 1 to 16 bits");
  return half_key(score) >> (HALF_BITS - Bits);
}

// The top bits of a key that begin at bit `shift`; none where the whole key lies below.
__device__ __forceinline__ unsigned prefix_of(unsigned key, int shift) {
  return shift >= KEY_BITS ? 0u : key >> shift;
}

}  // namespace workbench
