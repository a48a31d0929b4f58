// Float32 thresholds of coarse bins, for selectors that compare scores instead of binning them a second time:
// workbench/numeric/bounds.py, which says in what the rules differ.
#pragma once

#include "ordered_keys.cuh"

namespace workbench {

enum class Bound { midpoint, rounded, stepped };

constexpr float FLT_MAX_ = 3.402823466e+38f;
__device__ __forceinline__ float infinity() { return __uint_as_float(0x7F800000u); }

// The fp16 value of an ordered key, with the infinities one step past the numbers.
__device__ __forceinline__ float edge(unsigned key) {
  constexpr float PAST_HALF = 65536.0f;
  if (key <= LEAST_NUMBER) return -PAST_HALF;
  return key >= GREATEST_NUMBER ? PAST_HALF : half_key_value(key);
}

// The score from which on scores are taken to lie in this bin of Bits bits or above, bin from 0 to 2^Bits.
template <int Bits, Bound Rule>
__device__ __forceinline__ float lower_bound(int bin) {
  const unsigned key = static_cast<unsigned>(bin) << (HALF_BITS - Bits);
  if (Rule == Bound::midpoint && (bin == 0 || bin == 1 << Bits)) return bin == 0 ? -FLT_MAX_ : FLT_MAX_;
  if (bin == 0 || key <= LEAST_NUMBER) return -infinity();
  if (key > GREATEST_NUMBER) return infinity();
  const float middle = 0.5f * (edge(key) + edge(key - 1));
  if (Rule == Bound::midpoint || static_cast<int>(coarse_bin<Bits>(middle)) >= bin) return middle;
  return score_of(ordered_key(middle) + 1);
}

struct Bounds {
  float from, to;
};

// From which score on a bin is taken to begin, and from which on the next one.
template <int Bits, Bound Rule>
__device__ __forceinline__ Bounds bounds_of(int bin) {
  Bounds bounds{lower_bound<Bits, Rule>(bin), lower_bound<Bits, Rule>(bin + 1)};
  if constexpr (Rule == Bound::stepped) {
    constexpr int SHIFT = HALF_BITS - Bits;
    if (bin > static_cast<int>(GREATEST_NUMBER >> SHIFT)) {
      bounds.from = lower_bound<Bits, Rule>(static_cast<int>(LEAST_NUMBER >> SHIFT) + 1);
    }
    if (bounds.to == 0.0f) bounds.to = __uint_as_float(1u);  // zeros of both signs lie in the bin of -0.0
  }
  return bounds;
}

}  // namespace workbench
