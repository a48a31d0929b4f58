// What the language and the PTX of the device give the selectors. Everything else is plain C++17, so that the same
// sources run on the CPU under tests/kernels/host_shim.h, which defines these names itself.
#pragma once

#ifndef WORKBENCH_HOST

// Marks the machine code with the dynamic shared memory of a block, which the host must know before it launches one.
#define WORKBENCH_SHARED_BYTES(Shared) \
  extern "C" __device__ const workbench::SharedBytes workbench_shared{"workbench_shared:", sizeof(Shared)};
#define WORKBENCH_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

namespace workbench {

struct SharedBytes {
  char mark[20];
  unsigned bytes;
};

// Bits of the score rounded to fp16 (to nearest, ties to even). Every NaN gives 0x7FFF.
__device__ __forceinline__ unsigned half_bits(float score) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(score));
  return bits;
}

// Bits of two scores rounded to fp16, the first one in the low half.
__device__ __forceinline__ unsigned half_pair(float first, float second) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}

// The value of fp16 bits.
__device__ __forceinline__ float half_value(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}

// The value as if it were new: what is worked out of it is then worked out at each visit, and takes no registers between.
__device__ __forceinline__ float anew(float score) {
  asm volatile("" : "+f"(score));
  return score;
}
__device__ __forceinline__ int anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

// A place of one's own: the threads of a warp that are here together share one atomic, which keeps their order of lanes.
// A place of one's own. The compiler lets the threads of a warp that are here together share one atomic, which keeps
// their order of lanes, in fewer instructions than __activemask and a shuffle over its lanes take.
__device__ __forceinline__ int take_slot(int* counter) { return atomicAdd(counter, 1); }

// The value of another lane, or those of all lanes or-ed. The whole warp takes part.
__device__ __forceinline__ int value_of_lane(int value, int lane) { return __shfl_sync(0xFFFFFFFFu, value, lane); }
__device__ __forceinline__ unsigned or_of_lanes(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_or_sync(0xFFFFFFFFu, value);
#else
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value |= __shfl_xor_sync(0xFFFFFFFFu, value, step);
  return value;
#endif
}

// Four scores that nobody writes meanwhile and this block reads once: they take no room in its cache.
__device__ __forceinline__ float4 load_once(const float4* at) {
  float4 all;
  asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
      : "=f"(all.x), "=f"(all.y), "=f"(all.z), "=f"(all.w)
      : "l"(at));
  return all;
}

// Sets a flag that any number of threads may set at once; an atomic would take registers.
__device__ __forceinline__ void raise(int* flag) { *static_cast<volatile int*>(flag) = 1; }

// What stands in global memory now, whoever wrote it.
__device__ __forceinline__ int load_now(const int* at) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// Between two looks at something that others are to write.
__device__ __forceinline__ void pause() { asm volatile("nanosleep.u32 20;"); }

}  // namespace workbench

#endif
