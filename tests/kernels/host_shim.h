// What a kernel finds in place of CUDA when its source is built for the CPU: threads are fibers that host_run.cpp runs, and
// every access to memory is told to races.cpp. What that cannot show: memory order beyond fences, and anything of warps
// beyond their shuffles.
#pragma once

#include <cmath>
#include <cstring>

#define WORKBENCH_HOST
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define WORKBENCH_SHARED_BYTES(Shared) extern "C" const unsigned workbench_shared_bytes = sizeof(Shared);
#define WORKBENCH_DYNAMIC_SHARED(name) unsigned char* name = emulated::shared()
#define EMULATED_UNTOLD __attribute__((no_sanitize("thread"), noinline))  // its accesses to memory are told by itself

struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Index { unsigned x, y; };
extern Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

unsigned char* shared();  // memory of the block whose thread runs
unsigned rank();          // of that block among those that run at once
void part();              // lets others run
void maybe_part();
void wait_for_block();
void wait_for_all();  // of the blocks that run at once
int shuffle_up(int value, int step);
int shuffle_from(int value, int lane);
unsigned shuffle_or(unsigned value);
void* there(const void* mine, unsigned bytes, int rank);
void fence();
void atomic(const void* at, unsigned bytes, const void* from);  // `from`: the code that does it

void begin(unsigned seed, unsigned total);  // a launch of so many blocks
void calls(void (*one)(const void*), const void* captured);
const char* run_blocks(unsigned first, unsigned count, unsigned threads, unsigned shared_bytes);  // what went wrong, or null

// What every thread does, and the order in which they do it.
struct Body {
  template <class One>
  void operator=(const One& one) {
    static One* kept;
    delete kept;
    kept = new One(one);
    calls([](const void* captured) { (*static_cast<const One*>(captured))(); }, kept);
  }
};
struct Chance {
  void seed(unsigned seed) { begin(seed, 1); }
};
static Body body;
static Chance chance;

}  // namespace emulated

inline void __syncthreads() { emulated::wait_for_block(); }
inline int __shfl_up_sync(unsigned, int value, int step) { return emulated::shuffle_up(value, step); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline void __threadfence() { emulated::fence(); }

#define EMULATED_ATOMIC(name, change)                                                                                 \
  template <class T, class U>                                                                                         \
  EMULATED_UNTOLD T name(T* at, U value) {                                                                            \
    emulated::maybe_part();                                                                                           \
    emulated::atomic(at, sizeof(T), __builtin_return_address(0));                                                     \
    const T before = *at;                                                                                             \
    change;                                                                                                           \
    return before;                                                                                                    \
  }
EMULATED_ATOMIC(atomicAdd, *at += value)
EMULATED_ATOMIC(atomicExch, *at = value)
EMULATED_ATOMIC(atomicOr, *at |= value)
EMULATED_ATOMIC(atomicMin, if (value < before) *at = value)
EMULATED_ATOMIC(atomicMax, if (value > before) *at = value)
template <class T>
EMULATED_UNTOLD T atomicCAS(T* at, T expected, T value) {
  emulated::maybe_part();
  emulated::atomic(at, sizeof(T), __builtin_return_address(0));
  const T before = *at;
  if (before == expected) *at = value;
  return before;
}

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

namespace workbench {

inline unsigned half_bits(float score) {
  if (std::isnan(score)) return 0x7FFF;
  const unsigned sign = std::signbit(score) ? 0x8000 : 0;
  const double size = std::fabs(static_cast<double>(score));
  if (size >= 65520.0) return sign | 0x7C00;
  if (size < std::ldexp(1.0, -14)) return sign | static_cast<unsigned>(std::nearbyint(std::ldexp(size, 24)));
  const int exponent = std::ilogb(size);
  const unsigned fraction = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return sign | ((static_cast<unsigned>(exponent + 15) << 10) + (fraction - 1024));
}
inline float half_value(unsigned bits) {
  const unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25);
  const float value = exponent == 31 ? (fraction ? NAN : INFINITY) : static_cast<float>(size);
  return bits & 0x8000 ? -value : value;
}
inline unsigned half_pair(float first, float second) { return half_bits(first) | half_bits(second) << 16; }
inline float4 load_once(const float4* at) { return *at; }
inline float anew(float score) { return score; }
inline int anew(int number) { return number; }
inline int take_slot(int* counter) { return atomicAdd(counter, 1); }
inline int value_of_lane(int value, int lane) { return emulated::shuffle_from(value, lane); }
inline unsigned or_of_lanes(unsigned value) { return emulated::shuffle_or(value); }
EMULATED_UNTOLD inline int load_now(const int* at) {
  emulated::atomic(at, sizeof(int), __builtin_return_address(0));
  return *at;
}
inline void raise(int* flag) { atomicExch(flag, 1); }
inline void pause() { emulated::part(); }

inline int cluster_rank() { return static_cast<int>(emulated::rank()); }
inline void cluster_sync() { emulated::wait_for_all(); }
inline int* there(const int* mine, int rank) { return static_cast<int*>(emulated::there(mine, sizeof(int), rank)); }
inline int load_from(const int* mine, int rank) { return *there(mine, rank); }
inline void store_to(int* mine, int rank, int value) { *there(mine, rank) = value; }
inline int add_to(int* mine, int rank, int value) { return atomicAdd(there(mine, rank), value); }

}  // namespace workbench

#ifndef EMULATED_OWN

#define EMULATED_PARAMETERS                                                                                           \
  const float *scores, long long stride, int width, int rows, const int *lengths, const int *starts, int k,           \
      int *output, int *positions, long long output_stride, const int *tables, long long table_stride, int pages,     \
      int page_bits, const int *table_of, const int *offsets, int blocks, int *workspace, int *reports,               \
      int *histograms, int *dropped, int dropped_room, const int *spans
extern "C" void workbench_select(EMULATED_PARAMETERS);
extern "C" const unsigned workbench_shared_bytes;

// Runs `total` blocks, `at_once` of them at a time; the words say what went wrong, null if nothing.
extern "C" const char* emulate(unsigned threads, unsigned total, unsigned at_once, unsigned more_shared, unsigned seed,
                               EMULATED_PARAMETERS) {
  emulated::body = [=] {
    workbench_select(scores, stride, width, rows, lengths, starts, k, output, positions, output_stride, tables,
                     table_stride, pages, page_bits, table_of, offsets, blocks, workspace, reports, histograms, dropped,
                     dropped_room, spans);
  };
  emulated::begin(seed, total);
  for (unsigned block = 0; block < total; block += at_once) {
    const char* wrong = emulated::run_blocks(block, at_once, threads, workbench_shared_bytes + more_shared);
    if (wrong) return wrong;
  }
  return nullptr;
}

#endif
