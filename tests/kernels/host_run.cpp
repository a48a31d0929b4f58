// Runs blocks of a kernel on the CPU, one after the other or those that wait for each other at once: every thread is a
// fiber that goes on until it waits for others, so that the logic of a kernel, its barriers and the sizes of its shared
// memory can be tested without a GPU. The order in which threads run, and where atomics part them, follow a seed.
#include <setjmp.h>
#include <ucontext.h>

#include <memory>
#include <numeric>
#include <random>
#include <vector>

#define EMULATED_OWN
#include "host_shim.h"
#include "races.h"

Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

constexpr int WARP = 32, GUARD = 256, STACK = 1 << 17, PART_ONE_IN = 16, SLEEP_ONE_IN = 16, SLEEP = 64;
constexpr unsigned char POISON = 0xA5;  // what shared memory holds before a block begins

struct Barrier {
  int arrived = 0;
  unsigned generation = 0;
};
// Entered by its context, and left and come back to by jumps, which ask the system for nothing: it is where time goes.
struct Fiber {
  ucontext_t context;
  jmp_buf left;
  std::unique_ptr<char[]> stack;
  bool entered = false, done = false;
};
struct Block {
  unsigned number;
  std::vector<unsigned char> memory;
  Barrier barrier;
  unsigned asleep = 0;  // rounds in which it does not run: a block can fall far behind those it shares a row with
  bool begun = false, ending = false;  // whether one of its threads has
};

static std::vector<Block> blocks;  // that run at once; in a launch of clusters, those of one
static Barrier all_blocks;
static const char* fault;          // what a thread was seen to do wrong
static std::vector<Fiber> fibers;  // of all their threads, block by block
static std::vector<Barrier> warps;
static std::vector<int> lanes;  // what each thread shows to its warp
static unsigned current;        // the fiber that runs
static jmp_buf scheduler;
static std::mt19937 random;
static unsigned long long progress;
static void (*called)(const void*);
static const void* captured;

static Block& here() { return blocks[current / blockDim.x]; }

static void become(unsigned self) {
  current = self;
  threadIdx.x = self % blockDim.x;
  blockIdx.x = here().number;
  races::runs(here().number, threadIdx.x);
}

void part() {
  const unsigned self = current;
  if (_setjmp(fibers[self].left) == 0) _longjmp(scheduler, 1);
  become(self);
}

static void go_on(Fiber& fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber.entered) _longjmp(fiber.left, 1);
  fiber.entered = true;
  setcontext(&fiber.context);
}

void maybe_part() {
  if (random() % PART_ONE_IN == 0) {
    ++progress;
    part();
  }
}

// The last of them calls together() before any goes on.
template <class Together>
static void wait(Barrier& barrier, int count, Together together) {
  const unsigned generation = barrier.generation;
  ++progress;
  if (++barrier.arrived == count) {
    barrier.arrived = 0;
    ++barrier.generation;
    together();
  }
  while (barrier.generation == generation) part();
}

void wait_for_block() {
  wait(here().barrier, static_cast<int>(blockDim.x), [] { races::together(here().number, 1); });
}

void wait_for_all() {
  const unsigned count = static_cast<unsigned>(blocks.size());
  wait(all_blocks, static_cast<int>(count * blockDim.x), [=] { races::together(blocks[0].number, count); });
}

// What a thread makes of the values of its warp, found at `warp`.
template <class Use>
static int shuffled(int value, Use use) {
  const unsigned self = current, lane = self % WARP;
  const auto nothing = [] {};
  lanes[self] = value;
  wait(warps[self / WARP], WARP, nothing);
  const int found = use(&lanes[self - lane], static_cast<int>(lane));
  wait(warps[self / WARP], WARP, nothing);
  return found;
}
int shuffle_up(int value, int step) {
  return shuffled(value, [&](const int* warp, int lane) { return lane >= step ? warp[lane - step] : value; });
}
int shuffle_from(int value, int from) {
  return shuffled(value, [&](const int* warp, int) { return warp[from]; });
}
unsigned shuffle_or(unsigned value) {
  return static_cast<unsigned>(shuffled(static_cast<int>(value), [](const int* warp, int) {
    int all = 0;
    for (int lane = 0; lane < WARP; ++lane) all |= warp[lane];
    return all;
  }));
}

void fence() { races::fence(); }
void atomic(const void* at, unsigned bytes, const void* from) { races::atomic(at, bytes, from); }

unsigned char* shared() { return here().memory.data() + GUARD; }
unsigned rank() { return current / blockDim.x; }

void* there(const void* mine, unsigned bytes, int rank) {
  maybe_part();
  Block& other = blocks[rank];
  if (!other.begun) fault = "reached into a block that had not begun";
  if (other.ending) fault = "reached into a block that may have ended";
  const long at = static_cast<const unsigned char*>(mine) - here().memory.data();
  if (at < GUARD || at + bytes + GUARD > other.memory.size()) {
    static long long nowhere[2];
    fault = "reached past the shared memory";
    return nowhere;
  }
  return other.memory.data() + at;
}

void begin(unsigned seed, unsigned total) {
  random.seed(seed);
  gridDim.x = total;
  races::begin(total);
}

void calls(void (*one)(const void*), const void* with) {
  called = one;
  captured = with;
}

static void enter() {
  const unsigned self = current;
  called(captured);
  fibers[self].done = here().ending = true;
  ++progress;
  while (true) part();
}

static void lay_out(unsigned first, unsigned count, unsigned threads, unsigned shared_bytes) {
  blockDim.x = threads;
  all_blocks = {};
  fault = nullptr;
  races::blocks_ended();
  blocks.assign(count, {});
  for (unsigned at = 0; at < count; ++at) {
    blocks[at].number = first + at;
    blocks[at].memory.assign(shared_bytes + 2 * GUARD, POISON);
    races::block(first + at, threads, blocks[at].memory.data() + GUARD, shared_bytes);
  }
  const unsigned all = count * threads;
  warps.assign(all / WARP, {});
  lanes.assign(all, 0);
  if (fibers.size() < all) fibers.resize(all);
  for (unsigned at = 0; at < all; ++at) {
    Fiber& fiber = fibers[at];
    fiber.entered = fiber.done = false;
    if (!fiber.stack) fiber.stack.reset(new char[STACK]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK;
    makecontext(&fiber.context, enter, 0);
  }
}

static void sleep_some() {
  for (Block& block : blocks) {
    if (block.asleep > 0) {
      --block.asleep;
      ++progress;
    } else if (blocks.size() > 1 && random() % SLEEP_ONE_IN == 0) {
      block.asleep = random() % SLEEP;
      ++progress;
    }
  }
}

const char* run_blocks(unsigned first, unsigned count, unsigned threads, unsigned shared_bytes) {
  lay_out(first, count, threads, shared_bytes);
  const unsigned all = count * threads;
  std::vector<unsigned> order(all);
  std::iota(order.begin(), order.end(), 0u);
  for (unsigned left = all; left > 0;) {
    for (unsigned at = all - 1; at > 0; --at) std::swap(order[at], order[random() % (at + 1)]);
    const unsigned long long before = progress;
    left = 0;
    sleep_some();
    for (unsigned self : order) {
      if (fibers[self].done) continue;
      if (blocks[self / threads].asleep > 0) {
        ++left;
        continue;
      }
      become(self);
      here().begun = true;
      go_on(fibers[self]);
      left += !fibers[self].done;
    }
    if (left > 0 && progress == before) return "threads wait for each other at different barriers";
  }
  for (const Block& block : blocks) {
    for (int at = 0; at < GUARD; ++at) {
      const auto& memory = block.memory;
      if (memory[at] != POISON || memory[memory.size() - 1 - at] != POISON) return "written past the shared memory";
    }
  }
  return fault != nullptr ? fault : races::found();
}

}  // namespace emulated
