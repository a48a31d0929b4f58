// The per-row selector: fp16 bins, then digits of the exact key, until what the cut falls into can be sorted; of a row
// that several blocks share, each selects k from its slice, and the last to finish selects from those. Model:
// workbench/paths/models/per_row.py, which also tells what stands in slots that no score fills.
#include "coarse.cuh"
#include "emission.cuh"
#include "scores.cuh"
#include "search.cuh"

namespace workbench {

using Refined = Digits<WORKBENCH_DIGITS>;
constexpr int ROOM = WORKBENCH_CAPACITY_MOST;  // candidates that can be sorted
static_assert(WORKBENCH_CAPACITY == ROOM && WORKBENCH_RANKED_TIES == 0, "the buffer of candidates has one size");
constexpr int SORTING = WORKBENCH_SORT_THREADS, MERGING = WORKBENCH_MERGE_THREADS;  // threads of the released sorts
constexpr int NO_INDEX = -1, GARBAGE = -2;                                          // in place of positions
constexpr int FAR_OUTSIDE = 0x7FFFFFFF;
constexpr int BINS = larger(COARSE_BINS, 1 << Refined::most());
constexpr float LOWEST = -3.402823466e+38f;  // what sorts are filled up with
__device__ __forceinline__ unsigned lowest_key() { return ordered_key(LOWEST); }

struct Shared {
  Counts<BINS> counts;
  int written, equal, stored, garbage, last;
  int members[ROOM], sorted[ROOM];
  unsigned keys[ROOM];
};

using Held = Scores<WORKBENCH_ITEMS>;

// Where the winners of a row that one block serves go.
struct Direct {
  const Output& output;

  __device__ __forceinline__ void take(int position) const { output.take(position); }
  __device__ __forceinline__ void padding() const {}  // what remains is filled up in the end
};

// Where those of a slice go, to be handed on.
struct Slots {
  int* written;
  int* origins;
  float* values;
  const float* scores;
  int k, begin;

  __device__ __forceinline__ void take(int position) const {
    const int slot = take_slot(written);
    if (slot >= k) return;
    origins[slot] = begin + position;
    values[slot] = scores[position];
  }
  __device__ __forceinline__ void padding() const {}
};

// Where the winners of the merge go: what was handed on, by its origin.
struct Merged {
  const Output& output;
  const int* origins;
  int* garbage;

  __device__ __forceinline__ void take(int position) const {
    const int origin = origins[position];
    if (origin >= 0) output.take(origin);
    else if (origin == GARBAGE) padding();
  }
  __device__ __forceinline__ void padding() const { take_slot(garbage); }
};

// Each candidate's place is the number of greater ones, and of equal ones that arrived later. No comparison with NaN
// holds: all NaN come to the first place, and as many places stay as they were.
template <class Sink>
__device__ __forceinline__ void compare(const Row& row, int stored, int need, Shared& shared, const Sink& sink) {
  for (int at = threadIdx.x; at < stored; at += THREADS) {
    shared.sorted[at] = GARBAGE;
    shared.keys[at] = __float_as_uint(row.scores[shared.members[at]]);
  }
  __syncthreads();
  for (int at = threadIdx.x; at < stored; at += THREADS) {
    const float own = __uint_as_float(shared.keys[at]);
    int better = 0;
    for (int other = 0; other < stored; ++other) {
      const float score = __uint_as_float(shared.keys[other]);
      better += score > own || (score == own && other > at);
    }
    atomicExch(&shared.sorted[better], shared.members[at]);
  }
  __syncthreads();
  for (int at = threadIdx.x; at < need; at += THREADS) {
    if (shared.sorted[at] == GARBAGE) sink.padding();
    else sink.take(shared.sorted[at]);
  }
}

// A stable sort of all places by so many threads, of which each holds some side by side: padding is among them.
template <int Threads, class Sink>
__device__ __forceinline__ void sort(const Row& row, int stored, int need, Shared& shared, const Sink& sink,
                                     Recorder& recorder) {
  constexpr int SIDE = ROOM > Threads ? ROOM / Threads : 1, EACH = (ROOM + THREADS - 1) / THREADS;
  static_assert(ROOM <= Threads || ROOM % Threads == 0, "every thread of the sort has as many places");
  for (int at = threadIdx.x; at < ROOM; at += THREADS) {
    shared.keys[at] = at < stored ? ordered_key(row.scores[shared.members[at]]) : lowest_key();
  }
  Search at{0, 0, need, ROOM};
  Refined::each([&](int bits) {
    narrow<KEY_BITS>(at, bits, shared.counts, recorder, [&](auto visit) {
      for (int slot = threadIdx.x; slot < ROOM; slot += THREADS) visit(shared.keys[slot]);
    }, 0, false);
    return true;
  });
  const auto places = [&](auto visit) {  // of this thread, in order; calls visit(candidate)
    for (int step = 0; step < EACH; ++step) {
      const int place = static_cast<int>(threadIdx.x) * EACH + step;
      if (place < ROOM) visit(place / SIDE + place % SIDE * Threads);
    }
  };
  int equal = 0;
  places([&](int slot) { equal += shared.keys[slot] == at.pivot; });
  int before = block_exclusive_sum(equal, shared.counts.sums);
  places([&](int slot) {
    const unsigned key = shared.keys[slot];
    if (key < at.pivot || (key == at.pivot && before++ >= at.need)) return;
    if (slot < stored) sink.take(shared.members[slot]);
    else sink.padding();
  });
}

enum class Way { compared, radix, merged };

// The k best of a row longer than k. Whether the first step was enough to sort what the cut falls into.
template <class Sink>
__device__ __forceinline__ bool best(const Row& row, int k, Way way, const Books& books, int number, Shared& shared,
                                     const Sink& sink, Recorder& recorder) {
  const Held scores(row);
  const auto bin = [](float score) { return bin_of(score); };
  const Coarse seen = coarse_pass(scores, k, shared.counts, books, number, recorder, bin);
  const bool fits = seen.population <= ROOM;
  recorder.stored(fits, fits ? seen.population : 0);
  if (threadIdx.x == 0) shared.stored = shared.equal = 0;
  __syncthreads();
  const auto keep = [&](int index) { shared.members[take_slot(&shared.stored)] = index; };
  int need = seen.need;
  if (fits) {
    scores.each([&](int index, float score) {
      const int at = bin(score);
      if (at > seen.bin) sink.take(index);
      else if (at == seen.bin) keep(index);
    });
  } else {
    recorder.fell_back();
    Search at{0, 0, k, row.length};
    Refined::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, shared.counts, recorder, [&](auto visit) {
        scores.each([&](int, float score) { visit(ordered_key(score)); });
      });
      return at.equal > ROOM;
    });
    need = at.need;
    const int shift = KEY_BITS - at.searched;
    const unsigned pivot = prefix_of(at.pivot, shift);
    scores.each([&](int index, float score) {
      const unsigned prefix = prefix_of(ordered_key(score), shift);
      if (prefix > pivot) sink.take(index);
      else if (prefix == pivot && shift > 0) keep(index);
      else if (prefix == pivot && take_slot(&shared.equal) < need) sink.take(index);
    });
    if (shift == 0) need = 0;
  }
  __syncthreads();
  if (need > 0) {
    if (way == Way::compared) compare(row, shared.stored, need, shared, sink);
    else if (way == Way::radix) sort<SORTING>(row, shared.stored, need, shared, sink, recorder);
    else sort<MERGING>(row, shared.stored, need, shared, sink, recorder);
  }
  __syncthreads();
  return fits;
}

// What stands in a slot that a sort filled with what it was padded with: an index that is there already, over and over.
__device__ __forceinline__ void repeat(const Output& output, int slot) {
  if (*output.written > 0) output.repeat_first(slot);
  else output.put(slot, FAR_OUTSIDE);
}

// What the slices of a row hand on: scores and origins, k of each a slice.
struct Handed {
  float* scores;
  int* origins;

  __device__ __forceinline__ Handed(const Call& call, int number) {
    const long long all = static_cast<long long>(call.blocks) * call.k;
    int* of_row = call.workspace + call.rows * WORKBENCH_ZEROED + number * 2 * all;
    scores = reinterpret_cast<float*>(of_row);
    origins = of_row + all;
  }
};

// One slice of a row. Whether this block was the last of the row's to end.
__device__ __forceinline__ bool slice(const Call& call, const Row& row, int number, int part, const Handed& handed,
                                      Shared& shared) {
  const int size = (row.length + call.blocks - 1) / call.blocks;
  const int begin = part * size < row.length ? part * size : row.length;
  const int length = row.length - begin < size ? row.length - begin : size;
  const Row own{row.scores + begin, length, row.start};
  const Slots slots{&shared.written, handed.origins + static_cast<long long>(part) * call.k,
                    handed.scores + static_cast<long long>(part) * call.k, own.scores, call.k, begin};
  const Books untold{nullptr, nullptr, nullptr, 0};
  Recorder silent(untold, 0);
  if (length > call.k) {
    const bool fits = best(own, call.k, Way::radix, untold, 0, shared, slots, silent);
    Recorder recorder(call.books, number);
    if (!fits) recorder.fell_back();
  } else {
    for (int at = threadIdx.x; at < length; at += THREADS) slots.take(at);
    __syncthreads();
  }
  for (int slot = shared.written + threadIdx.x; slot < call.k; slot += THREADS) {
    slots.values[slot] = LOWEST;
    slots.origins[slot] = length > call.k ? GARBAGE : NO_INDEX;
  }
  __syncthreads();
  if (threadIdx.x == 0) {  // its fences speak for what the barriers have brought together
    __threadfence();
    shared.last = atomicAdd(call.workspace + number * WORKBENCH_ZEROED, 1) == call.blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return shared.last;
}

__device__ __forceinline__ void select(const Call& call, int block, Shared& shared) {
  const int number = block / call.blocks, part = block % call.blocks;
  if (!call.takes(number)) return;
  const Row row = call.row(number);
  const Output output = call.output(number, &shared.written);
  if (output.settles(row.length, part == 0)) return;
  if (threadIdx.x == 0) shared.written = shared.garbage = 0;
  __syncthreads();
  if (call.blocks == 1) {
    Recorder recorder(call.books, number);
    best(row, call.k, call.width < WORKBENCH_RADIX_FROM ? Way::compared : Way::radix, call.books, number, shared,
         Direct{output}, recorder);
    // As seen on released ops: every other one far outside the row.
    for (int slot = shared.written + threadIdx.x; slot < call.k; slot += THREADS) {
      if ((slot - shared.written) % 2 == 0) output.put(slot, FAR_OUTSIDE);
      else repeat(output, slot);
    }
    return;
  }
  const Handed handed(call, number);
  if (!slice(call, row, number, part, handed, shared)) return;
  if (threadIdx.x == 0) shared.written = 0;
  Recorder recorder(call.books, number);
  const Row all{handed.scores, call.blocks * call.k, 0};
  best(all, call.k, Way::merged, call.books, number, shared, Merged{output, handed.origins, &shared.garbage}, recorder);
  for (int slot = shared.written + threadIdx.x; slot < call.k; slot += THREADS) {
    if (slot - shared.written < shared.garbage) repeat(output, slot);
    else output.leave_empty(slot);
  }
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
