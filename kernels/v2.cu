// SGLang's v2 selectors of one block: the row in registers or streamed.
#include "scores.cuh"
#include "v2.cuh"

namespace workbench {

constexpr int SLOTS = WORKBENCH_CAPACITY_MOST;
constexpr bool HAS_TAIL = LEAST_PADDING && WORKBENCH_ITEMS > 0;
static_assert(FALLBACK != Fallback::clamped, "one block knows how many ties there are");

struct Shared {
  Counts<BINS> counts;
  int written, equal, ties;
  unsigned least, greatest;
  Candidates<SLOTS, RANKED> candidates;
};

using Held = Scores<WORKBENCH_ITEMS>;

// More ties than the buffer holds, selected from the row. each(visit) calls visit(index, key) for this thread's ties.
template <class KeyOf, class Each>
__device__ __forceinline__ void from_row(int ties, int need, int room, Shared& shared, const Output& output,
                                         Recorder& recorder, KeyOf key_of, Each each) {
  const auto keys = [&](auto visit) { each([&](int, unsigned key) { visit(key); }); };
  Search at{0, 0, need, ties};
  if constexpr (FALLBACK == Fallback::counted) {
    if (threadIdx.x == 0) {
      shared.least = 0xFFFFFFFFu;
      shared.greatest = 0;
    }
    __syncthreads();
    keys([&](unsigned key) {
      atomicMin(&shared.least, key);
      atomicMax(&shared.greatest, key);
    });
    bool first = true;
    Narrowed::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, shared.counts, recorder, keys);
      const bool more = !first || shared.least != shared.greatest;
      first = false;
      return more;
    });
    if (shared.least == shared.greatest) {  // any buffered ties will do
      for (int slot = threadIdx.x; slot < need; slot += THREADS) output.take(shared.candidates.members[0][slot]);
      return;
    }
    recorder.fell_back();
    emit<KEY_BITS>(at, output, &shared.equal, each);
  } else {
    recorder.fell_back();
    const int fits = room > need ? room : need;
    Narrowed::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, shared.counts, recorder, keys);
      return at.equal > fits;
    });
    const int shift = KEY_BITS - at.searched;
    const unsigned pivot = prefix_of(at.pivot, shift);
    shared.candidates.empty();
    __syncthreads();
    each([&](int index, unsigned key) {
      const unsigned prefix = prefix_of(key, shift);
      if (prefix > pivot) {
        output.take(index);
      } else if (prefix == pivot) {
        shared.candidates.store(index, room);
      }
    });
    __syncthreads();
    shared.candidates.template cut<Refined>(shared.candidates.stored(room), at.need, shared.counts, output, recorder,
                                            key_of);
  }
}

__device__ __forceinline__ void select(const Call& call, int number, Shared& shared) {
  if (!call.takes(number)) return;
  const Row row = call.row(number);
  const Output output = call.output(number, &shared.written);
  if (row.length <= call.k) return output.whole(row.length);
  if (!Held::holds(row.length)) return;
  if (threadIdx.x == 0) shared.written = 0;
  Recorder recorder(call.books, number);
  const Held scores(row);
  const Coarse seen = coarse_pass(scores, call.k, shared.counts, call.books, number, recorder,
                                  [](float score) { return bin_of(score); });
  const Bounds bounds = bounds_of<COARSE_BITS, RULE>(seen.bin);
  const int room = room_of(call.k);
  shared.candidates.empty();
  if (threadIdx.x == 0) shared.ties = 0;
  __syncthreads();
  const auto missed = [&](int index) {
    if constexpr (FALLBACK == Fallback::none) recorder.drop(index);
  };
  scores.sort(
      true, output.written,
      [&](float score) { return score >= bounds.to ? 1 : score >= bounds.from ? 0 : -1; },
      [&](int slot, int index) {
        if (!output.place(slot, index)) recorder.drop(index);
      },
      [&](int index) {
        if (!shared.candidates.store(index, room)) missed(index);
      });
  __syncthreads();
  const int found = shared.candidates.count[0];
  const int above = shared.written < call.k ? shared.written : call.k, need = call.k - above;
  const auto key_of = [&](int index) { return ordered_key(index < row.length ? row.scores[index] : -FLT_MAX_); };
  if (FALLBACK != Fallback::none && found > room) {
    recorder.stored(seen.buffered, room);
    if (need > 0) {
      from_row(found, need, room, shared, output, recorder, key_of, [&](auto visit) {
        scores.each([&](int index, float score) {
          if (score >= bounds.from && !(score >= bounds.to)) visit(index, ordered_key(score));
        });
      });
    }
    return;
  }
  int cells = 0;  // of the last vector, past the row's end
  if constexpr (HAS_TAIL) __syncthreads();  // all have read the count
  if (HAS_TAIL && bounds.from <= -FLT_MAX_) cells = (VECTOR - row.length % VECTOR) % VECTOR;
  if (static_cast<int>(threadIdx.x) < cells) {
    const int index = row.length + threadIdx.x;
    if (!shared.candidates.store(index, room)) missed(index);
  }
  __syncthreads();
  const int ties = found + cells, stored = ties < room ? ties : room;
  recorder.stored(seen.buffered, stored);
  if (need > 0) cut(shared.candidates, stored, need, shared.counts, output, recorder, key_of);
  fill_up(above + ties, row, output);
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
