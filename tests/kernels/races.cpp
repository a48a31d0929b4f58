// See races.h. Sources that are built with -fsanitize=thread call what its runtime would have: functions of these names.
//
// A block's life is cut into intervals by its barriers. A thread knows, of every block, how many intervals lie behind
// it: of its own all but the one that runs, of others what a barrier of the cluster, or a fence and an atomic on each
// side, told it. What a thread does between its fence and the next barrier counts as not told.
#include "races.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace races {

using Known = std::vector<unsigned>;  // by block: intervals that lie behind
using Shared = std::shared_ptr<const Known>;

constexpr int SEVERAL = -1, GRANULE = 4;
enum Kind { READ, WRITE, ATOMIC };
constexpr const char* KINDS[] = {"read", "written", "changed by an atomic"};

// An access, or those of several threads of a block in one interval.
struct Seen {
  unsigned block, interval;
  int thread;
  const void* from;
};

// The latest accesses of each block.
class Latest {
 public:
  void add(const Seen& one) {
    for (Seen& seen : all_) {
      if (seen.block != one.block) continue;
      if (seen.interval != one.interval) seen = one;
      else if (seen.thread != one.thread) seen.thread = SEVERAL;
      return;
    }
    all_.push_back(one);
  }
  void clear() { all_.clear(); }
  std::vector<Seen>::const_iterator begin() const { return all_.begin(); }
  std::vector<Seen>::const_iterator end() const { return all_.end(); }

 private:
  std::vector<Seen> all_;
};

struct Cell {
  Latest by[3];  // of each kind; a write makes an end of the others
};

struct Region {
  std::string name;
  const char* from;
  unsigned long bytes;
  std::vector<Cell> cells;
};

struct Thread {
  Shared known, fenced, heard;  // what it knows, what its atomics tell, what its next fence will make known
};

struct Block {
  unsigned threads, interval;
  std::vector<Thread> of;
};

static std::vector<Block> blocks;
static std::map<const char*, Region> regions;  // by their ends
static std::unordered_map<const void*, Shared> told;  // by what was told through
static std::vector<const char*> of_blocks;  // the ends of their shared memory
static unsigned own, self;                  // the thread that runs
static std::string race;

static Shared joined(const Shared& one, const Shared& other) {
  if (one == nullptr || one == other) return other;
  if (other == nullptr) return one;
  Known both = *one;
  for (unsigned at = 0; at < both.size(); ++at) both[at] = std::max(both[at], (*other)[at]);
  return std::make_shared<const Known>(std::move(both));
}

static void watch(const std::string& name, const void* from, unsigned long bytes) {
  const char* first = static_cast<const char*>(from);
  regions[first + bytes] = {name, first, bytes, std::vector<Cell>((bytes + GRANULE - 1) / GRANULE)};
}

static bool ordered(const Seen& one) {
  if (one.block != own) return (*blocks[own].of[self].known)[one.block] > one.interval;
  return one.interval < blocks[own].interval || one.thread == static_cast<int>(self);
}

static std::string place(const void* from) {
  Dl_info about;
  char words[32];
  const bool known = dladdr(from, &about) != 0;
  const char* base = known ? static_cast<const char*>(about.dli_fbase) : nullptr;
  std::snprintf(words, sizeof words, "<0x%lx>", static_cast<unsigned long>(static_cast<const char*>(from) - base - 1));
  return words;
}

static void tell(const Region& region, unsigned long cell, Kind kind, const void* from, Kind before, const Seen& seen) {
  const std::string who = seen.thread == SEVERAL ? "several threads" : "thread " + std::to_string(seen.thread);
  race = "a race in " + region.name + " at byte " + std::to_string(cell * GRANULE) + ": " + KINDS[before] + " by " + who +
         " of block " + std::to_string(seen.block) + " " + place(seen.from) + ", " + KINDS[kind] + " by thread " +
         std::to_string(self) + " of block " + std::to_string(own) + " " + place(from);
}

static void access(Kind kind, const void* at, unsigned long bytes, const void* from) {
  const char* first = static_cast<const char*>(at);
  const auto found = regions.upper_bound(first);
  if (found == regions.end() || first < found->second.from || blocks.empty()) return;
  Region& region = found->second;
  const unsigned long begin = first - region.from, end = std::min(begin + bytes, region.bytes);
  const Seen me{own, blocks[own].interval, static_cast<int>(self), from};
  for (unsigned long cell = begin / GRANULE; cell * GRANULE < end; ++cell) {
    Cell& held = region.cells[cell];
    for (Kind before : {READ, WRITE, ATOMIC}) {
      if (before == kind && kind != WRITE) continue;
      for (const Seen& seen : held.by[before]) {
        if (race.empty() && !ordered(seen)) tell(region, cell, kind, from, before, seen);
      }
    }
    if (kind == WRITE) {
      for (Latest& latest : held.by) latest.clear();
    }
    held.by[kind].add(me);
  }
}

void begin(unsigned total) {
  blocks.assign(total, {});
  told.clear();
  race.clear();
}

void block(unsigned number, unsigned threads, const void* shared, unsigned long bytes) {
  if (number >= blocks.size()) begin(number + 1);
  blocks[number] = {threads, 0, std::vector<Thread>(threads)};
  const auto nothing = std::make_shared<const Known>(blocks.size(), 0u);
  for (Thread& thread : blocks[number].of) thread.known = nothing;
  if (bytes == 0) return;
  watch("the shared memory of block " + std::to_string(number), shared, bytes);
  of_blocks.push_back(static_cast<const char*>(shared) + bytes);
}

void blocks_ended() {
  for (const char* end : of_blocks) regions.erase(end);
  of_blocks.clear();
}

void runs(unsigned block, unsigned thread) {
  own = block;
  self = thread;
}

void together(unsigned first, unsigned many) {
  Shared all;
  for (unsigned block = first; block < first + many; ++block) {
    for (const Thread& thread : blocks[block].of) all = joined(all, thread.known);
  }
  Known known = *all;
  for (unsigned block = first; block < first + many; ++block) known[block] = ++blocks[block].interval;
  const auto now = std::make_shared<const Known>(std::move(known));
  for (unsigned block = first; block < first + many; ++block) {
    for (Thread& thread : blocks[block].of) thread.known = now;
  }
}

void fence() {
  Thread& thread = blocks[own].of[self];
  thread.known = joined(thread.known, thread.heard);
  thread.fenced = thread.known;
}

void atomic(const void* at, unsigned bytes, const void* from) {
  access(ATOMIC, at, bytes, from);
  Thread& thread = blocks[own].of[self];
  const auto before = told.find(at);
  if (before != told.end()) thread.heard = joined(thread.heard, before->second);
  if (thread.fenced != nullptr) told[at] = joined(thread.fenced, before == told.end() ? nullptr : before->second);
}

const char* found() { return race.empty() ? nullptr : race.c_str(); }

}  // namespace races

// Memory beside that of the blocks, for as long as it is watched; nothing is from then on if `bytes` is 0.
extern "C" void emulated_watch(const char* name, const void* from, unsigned long bytes) {
  if (bytes == 0) races::regions.clear();
  else races::watch(name, from, bytes);
}

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, unsigned long bytes) { races::access(races::READ, at, bytes, __builtin_return_address(0)); }
void __tsan_write_range(void* at, unsigned long bytes) { races::access(races::WRITE, at, bytes, __builtin_return_address(0)); }
#define WORKBENCH_ACCESS(bytes)                                                                                       \
  void __tsan_read##bytes(void* at) { races::access(races::READ, at, bytes, __builtin_return_address(0)); }           \
  void __tsan_write##bytes(void* at) { races::access(races::WRITE, at, bytes, __builtin_return_address(0)); }         \
  void __tsan_unaligned_read##bytes(void* at) { races::access(races::READ, at, bytes, __builtin_return_address(0)); } \
  void __tsan_unaligned_write##bytes(void* at) { races::access(races::WRITE, at, bytes, __builtin_return_address(0)); }
WORKBENCH_ACCESS(1)
WORKBENCH_ACCESS(2)
WORKBENCH_ACCESS(4)
WORKBENCH_ACCESS(8)
WORKBENCH_ACCESS(16)
}
