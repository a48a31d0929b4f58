// Runs blocks of a kernel on the CPU, one after the other or those that wait for each other at once: every thread is a
// fiber that goes on until it waits for others, so that the logic of a kernel, its barriers and the sizes of its shared
// memory can be tested without a GPU. The order in which threads run, and where atomics part them, follow a seed. What it
// cannot show: races between barriers, and memory order.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#define WORKBENCH_HOST
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define WORKBENCH_SHARED_BYTES(Shared) extern "C" const unsigned workbench_shared_bytes = sizeof(Shared);
#define WORKBENCH_DYNAMIC_SHARED(name) unsigned char* name = emulated::here().shared.data() + emulated::GUARD

struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Index { unsigned x, y; };
static Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

constexpr int WARP = 32, GUARD = 256, STACK = 1 << 17, PART_ONE_IN = 16, SLEEP_ONE_IN = 16, SLEEP = 64;
constexpr unsigned char POISON = 0xA5;  // what shared memory holds before a block begins

struct Barrier {
  int arrived = 0;
  unsigned generation = 0;
};
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
};

struct Block {
  unsigned number;
  std::vector<unsigned char> shared;
  Barrier barrier;
  unsigned asleep = 0;  // rounds in which it does not run: a block can fall far behind those it shares a row with
  bool begun = false, ending = false;  // whether one of its threads has
};

static std::vector<Block> blocks;  // that run at once; in a launch of clusters, those of one
static Barrier cluster;
static const char* fault;  // what a thread was seen to do wrong
static std::vector<Fiber> fibers;  // of all their threads, block by block
static std::vector<Barrier> warps;
static std::vector<int> lanes;  // what each thread shows to its warp
static unsigned current;        // the fiber that runs
static ucontext_t scheduler;
static std::mt19937 chance;
static unsigned long long progress;

inline Block& here() { return blocks[current / blockDim.x]; }
inline void become(unsigned self) {
  current = self;
  threadIdx.x = self % blockDim.x;
  blockIdx.x = here().number;
}
inline void part() {
  const unsigned self = current;
  swapcontext(&fibers[self].context, &scheduler);
  become(self);
}
inline void wait(Barrier& barrier, int count) {
  const unsigned generation = barrier.generation;
  ++progress;
  if (++barrier.arrived == count) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (barrier.generation == generation) part();
}
inline void maybe_part() {
  if (chance() % PART_ONE_IN == 0) {
    ++progress;
    part();
  }
}

}  // namespace emulated

inline void __syncthreads() { emulated::wait(emulated::here().barrier, static_cast<int>(blockDim.x)); }
inline int __shfl_up_sync(unsigned, int value, int step) {
  const unsigned self = emulated::current, lane = self % emulated::WARP;
  emulated::lanes[self] = value;
  emulated::wait(emulated::warps[self / emulated::WARP], emulated::WARP);
  const int other = static_cast<int>(lane) >= step ? emulated::lanes[self - step] : value;
  emulated::wait(emulated::warps[self / emulated::WARP], emulated::WARP);
  return other;
}
template <class T, class U>
T atomicAdd(T* at, U value) {
  emulated::maybe_part();
  const T before = *at;
  *at += value;
  return before;
}
template <class T>
T atomicExch(T* at, T value) {
  emulated::maybe_part();
  const T before = *at;
  *at = value;
  return before;
}
template <class T, class U>
T atomicOr(T* at, U value) {
  emulated::maybe_part();
  const T before = *at;
  *at |= value;
  return before;
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  emulated::maybe_part();
  const T before = *at;
  if (before == expected) *at = value;
  return before;
}
inline void __threadfence() {}
template <class T>
void atomicMin(T* at, T value) { if (value < *at) *at = value; }
template <class T>
void atomicMax(T* at, T value) { if (value > *at) *at = value; }
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
inline int take_slot(int* counter) { return atomicAdd(counter, 1); }
inline int load_now(const int* at) { return *at; }
inline void pause() { emulated::part(); }

inline int cluster_rank() { return static_cast<int>(emulated::current / blockDim.x); }
inline void cluster_sync() {
  emulated::wait(emulated::cluster, static_cast<int>(emulated::blocks.size() * blockDim.x));
}
inline int* there(const int* mine, int rank) {
  emulated::maybe_part();
  emulated::Block& other = emulated::blocks[rank];
  if (!other.begun) emulated::fault = "reached into a block that had not begun";
  if (other.ending) emulated::fault = "reached into a block that may have ended";
  const long at = reinterpret_cast<const unsigned char*>(mine) - emulated::here().shared.data();
  if (at < emulated::GUARD || at + sizeof(int) + emulated::GUARD > other.shared.size()) {
    static int nowhere;
    emulated::fault = "reached past the shared memory";
    return &nowhere;
  }
  return reinterpret_cast<int*>(other.shared.data() + at);
}
inline int load_from(const int* mine, int rank) { return *there(mine, rank); }
inline void store_to(int* mine, int rank, int value) { *there(mine, rank) = value; }
inline int add_to(int* mine, int rank, int value) { return atomicAdd(there(mine, rank), value); }

}  // namespace workbench

#define EMULATED_PARAMETERS                                                                                           \
  const float *scores, long long stride, int width, int rows, const int *lengths, const int *starts, int k,           \
      int *output, int blocks, int *workspace, int *reports, int *histograms, int *dropped, int dropped_room,         \
      const int *spans
extern "C" void workbench_select(EMULATED_PARAMETERS);
extern "C" const unsigned workbench_shared_bytes;

namespace emulated {

static std::function<void()> body;
inline void enter() {
  const unsigned self = current;
  body();
  fibers[self].done = here().ending = true;
  ++progress;
  while (true) part();
}

// What went wrong in the blocks from `first` on, which run at once, or null.
inline const char* run_blocks(unsigned first, unsigned count, unsigned threads, unsigned shared_bytes) {
  blockDim.x = threads;
  cluster = {};
  fault = nullptr;
  blocks.assign(count, {});
  for (unsigned at = 0; at < count; ++at) {
    blocks[at].number = first + at;
    blocks[at].shared.assign(shared_bytes + 2 * GUARD, POISON);
  }
  const unsigned all = count * threads;
  warps.assign(all / WARP, {});
  lanes.assign(all, 0);
  if (fibers.size() < all) fibers.resize(all);
  for (unsigned at = 0; at < all; ++at) {
    Fiber& fiber = fibers[at];
    fiber.done = false;
    if (!fiber.stack) fiber.stack.reset(new char[STACK]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK;
    makecontext(&fiber.context, enter, 0);
  }
  std::vector<unsigned> order(all);
  std::iota(order.begin(), order.end(), 0u);
  for (unsigned left = all; left > 0;) {
    for (unsigned at = all - 1; at > 0; --at) std::swap(order[at], order[chance() % (at + 1)]);
    const unsigned long long before = progress;
    left = 0;
    for (Block& block : blocks) {
      if (block.asleep > 0) {
        --block.asleep;
        ++progress;
      } else if (count > 1 && chance() % SLEEP_ONE_IN == 0) {
        block.asleep = chance() % SLEEP;
        ++progress;
      }
    }
    for (unsigned self : order) {
      if (fibers[self].done) continue;
      if (blocks[self / threads].asleep > 0) {
        ++left;
        continue;
      }
      become(self);
      here().begun = true;
      swapcontext(&scheduler, &fibers[self].context);
      left += !fibers[self].done;
    }
    if (left > 0 && progress == before) return "threads wait for each other at different barriers";
  }
  for (const Block& block : blocks) {
    for (int at = 0; at < GUARD; ++at) {
      const auto& shared = block.shared;
      if (shared[at] != POISON || shared[shared.size() - 1 - at] != POISON) return "written past the shared memory";
    }
  }
  return fault;
}

}  // namespace emulated

#ifndef EMULATED_OWN

// Runs `total` blocks, `at_once` of them at a time; the words say what went wrong, null if nothing.
extern "C" const char* emulate(unsigned threads, unsigned total, unsigned at_once, unsigned more_shared, unsigned seed,
                               EMULATED_PARAMETERS) {
  emulated::body = [=] {
    workbench_select(scores, stride, width, rows, lengths, starts, k, output, blocks, workspace, reports, histograms,
                     dropped, dropped_room, spans);
  };
  emulated::chance.seed(seed);
  gridDim.x = total;
  for (unsigned block = 0; block < total; block += at_once) {
    const char* wrong = emulated::run_blocks(block, at_once, threads, workbench_shared_bytes + more_shared);
    if (wrong) return wrong;
  }
  return nullptr;
}

#endif
