// vLLM's cluster selector: a slice of the row a block, each with a buffer of its own; winners and ties of the ranks
// are written one after the other, the ties to a workspace too, from which the first block takes the best. And the
// repair of it. Models: `stock` of workbench/paths/models/buffered.py, and recovery.py.
#include "candidates.cuh"
#include "cluster.cuh"
#include "coarse.cuh"

namespace workbench {

constexpr int MOST_K = WORKBENCH_MOST_K;
constexpr int SLOTS = WORKBENCH_CAPACITY_MOST;
constexpr unsigned KEPT = WORKBENCH_KEPT;  // scores of its slice that a block keeps
constexpr int VECTOR = 4;                  // scores that a thread brings at once
static_assert(LAYOUT == Layout::contiguous && KEPT % VECTOR == 0, "a block keeps the first scores of its slice");
static_assert(RANK_ROOM < 1 << 16 && MOST_K < 1 << 15, "counts of ties and of winners travel in one word");
using Refined = Digits<WORKBENCH_DIGITS>;

#ifdef WORKBENCH_OFFSET_DIGITS
using Offsets = Digits<WORKBENCH_OFFSET_DIGITS>;    // of offsets from the lower end of a bin
using Rescanned = Digits<WORKBENCH_RESCAN_DIGITS>;  // of the exact key
constexpr int MOST_BITS = larger(Offsets::most(), Rescanned::most());
constexpr int LONG = 16;                            // bits of a bfloat16 number's key
constexpr int FINER = HALF_BITS - COARSE_BITS;      // bits of the fp16 key below the bin
constexpr int LONG_CODES = 2 + (1 << (WORKBENCH_OFFSET_BITS - LONG));  // bfloat16 numbers that a finite bin can hold
static_assert(RANK_ROOM >= WORKBENCH_CAPACITY, "no rank stores less than all of them");
#else
constexpr int MOST_BITS = 0;
#endif

constexpr int BINS = larger(COARSE_BINS, 1 << larger(Refined::most(), MOST_BITS));

// What the first block needs once the scores are done with.
struct Ranking {
  Candidates<SLOTS, 0> places;  // of ties, among them all
  int index[SLOTS];
  unsigned keys[SLOTS];
};

struct Shared {
  Gathered<BINS> counts;
  int told[RANKS];  // by each rank: the ties that it stored, and the winners that it has
  int winners, ties, written;
  int winner[MOST_K];
  int tie[RANK_ROOM];
  unsigned tie_key[RANK_ROOM];
#ifdef WORKBENCH_OFFSET_DIGITS
  Gathered<LONG_CODES> long_codes;
  Gathered<1 << FINER> half_codes;
  unsigned least, greatest;
  int odd;
  int probed[RANKS][3];
#endif
  union {
    alignas(16) float kept[KEPT];
    Ranking ranking;
  };
};

// A rank's slice: what it brought into shared memory is walked there, the rest is read again.
class Slice {
 public:
  __device__ __forceinline__ Slice(const Row& row, int rank, float* kept) : part_(row, rank), kept_(kept) {}

  // The first visit.
  template <class Visit>
  __device__ __forceinline__ void bring(Visit visit) const {
    part_.walk<VECTOR>(0, [&](unsigned at, const float(&held)[VECTOR]) {
      if (at < KEPT) *reinterpret_cast<float4*>(kept_ + at) = float4{held[0], held[1], held[2], held[3]};
      const int index = part_.index_of(at);
#pragma unroll
      for (int place = 0; place < VECTOR; ++place) {
        if (at + place < part_.count()) visit(index + place, held[place]);
      }
    });
  }

  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) const {
    const unsigned held = part_.count() < KEPT ? part_.count() : KEPT;
#pragma unroll 4
    for (unsigned at = threadIdx.x; at < held; at += THREADS) visit(part_.index_of(at), kept_[at]);
    part_.each_from<LOAD>(KEPT, visit);
  }

 private:
  const Part part_;
  float* kept_;
};

struct Bringing {
  const Slice& slice;
  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) const {
    slice.bring(visit);
  }
};

enum class Place { lost, tie, winner };

// Sorts the slice into winners and ties; place(score) says which a score is. A rank stores as many ties as it has room
// for, and counts on.
template <class PlaceOf, class Missed>
__device__ __forceinline__ void collect(const Slice& scores, Shared& shared, PlaceOf place, Missed missed) {
  scores.each([&](int index, float score) {
    const Place is = place(score);
    if (is == Place::winner) {
      const int slot = take_slot(&shared.winners);
      if (slot < MOST_K) shared.winner[slot] = index;
    } else if (is == Place::tie) {
      const int slot = take_slot(&shared.ties);
      if (slot < RANK_ROOM) {
        shared.tie[slot] = index;
        shared.tie_key[slot] = ordered_key(score);
      } else {
        missed(index);
      }
    }
  });
  __syncthreads();
}

// What the ranks up to one have collected.
struct Collected {
  int winners, ties;
};

// Where this rank's begin, and what all have together.
__device__ __forceinline__ Collected tell(int rank, Shared& shared, Collected& all) {
  const int stored = shared.ties < RANK_ROOM ? shared.ties : RANK_ROOM;
  if (threadIdx.x < RANKS) store_to(&shared.told[rank], threadIdx.x, stored << 16 | shared.winners);
  cluster_sync();
  Collected before{0, 0};
  all = before;
  for (int other = 0; other < RANKS; ++other) {
    if (other == rank) before = all;
    all.winners += shared.told[other] & 0xFFFF;
    all.ties += shared.told[other] >> 16;
  }
  return before;
}

// The `need` best ties of the workspace, by the first block.
__device__ __forceinline__ void rank_again(const int* workspace, int stored, int need, Shared& shared,
                                           const Output& output, Recorder& recorder) {
  Ranking& ranking = shared.ranking;
  for (int at = threadIdx.x; at < stored; at += THREADS) {
    ranking.places.members[0][at] = at;
    ranking.index[at] = workspace[2 * at];
    ranking.keys[at] = static_cast<unsigned>(workspace[2 * at + 1]);
  }
  if (threadIdx.x == 0) shared.written = output.k - need;
  __syncthreads();
  struct Taker {
    const Output& output;
    const int* index;
    __device__ __forceinline__ void take(int place) const { output.take(index[place]); }
  };
  ranking.places.template refine<Refined>(stored, need, shared.counts.all, Taker{output, ranking.index}, recorder,
                                          [&](int place) { return ranking.keys[place]; });
}

#ifdef WORKBENCH_OFFSET_DIGITS
__device__ __forceinline__ bool is_long(float score) {
  return (__float_as_uint(score) & 0xFFFFu) == 0 && score == score;
}
__device__ __forceinline__ bool is_half(float score) { return half_value(half_bits(score)) == score; }

constexpr int OUTSIDE = 1, NO_LONG = 2, NO_HALF = 4;  // one score at least is so

// Which of the short formats a score is none of.
__device__ __forceinline__ int odd_of(float score) {
  return (is_long(score) ? 0 : NO_LONG) | (is_half(score) ? 0 : NO_HALF);
}

// Where the winners of the threshold bin end: the exact key of the last one, and the bits below that do not matter.
struct Cut {
  unsigned pivot;
  int shift;
};

// More members than the cluster stores: one pass that looks for scores of few kinds, which give the pivot at once, and
// counts the first digit for the others.
__device__ __forceinline__ Cut probe(const Coarse& seen, const Row& row, const Slice& scores, int rank, Shared& shared,
                                     Recorder& recorder) {
  constexpr int WIDTH = WORKBENCH_OFFSET_BITS, EVEN = Rescanned::first();
  static_assert(Offsets::first() == EVEN, "one first digit is counted, of offsets or of keys");
  const unsigned low = static_cast<unsigned>(seen.bin) << FINER, high = low + (1u << FINER) - 1u;
  const bool finite = low > LEAST_NUMBER && high < GREATEST_NUMBER;
  const unsigned first = finite ? ordered_key(half_key_value(low)) : 0u;
  const unsigned base = first > WORKBENCH_BELOW_BIN ? first - WORKBENCH_BELOW_BIN : 0u;
  const auto members = [&](auto visit) {
    scores.each([&](int, float score) {
      if (bin_of(score) == seen.bin) visit(score, ordered_key(score));
    });
  };
  clear(shared.counts, 1 << EVEN);
  clear(shared.long_codes, LONG_CODES);
  clear(shared.half_codes, 1 << FINER);
  if (threadIdx.x == 0) {
    shared.least = 0xFFFFFFFFu;
    shared.greatest = 0;
    shared.odd = 0;
  }
  __syncthreads();
  if (threadIdx.x < WORKBENCH_SNIFF && static_cast<int>(threadIdx.x) < row.length) {
    const int odd = odd_of(row.scores[threadIdx.x]);
    if (odd & NO_LONG) atomicOr(&shared.odd, NO_LONG);
    if (odd & NO_HALF) atomicOr(&shared.odd, NO_HALF);
  }
  __syncthreads();
  const bool sniffed = shared.odd != (NO_LONG | NO_HALF);
  __syncthreads();
  if (threadIdx.x == 0) shared.odd = sniffed ? 0 : NO_LONG | NO_HALF;
  __syncthreads();
  unsigned least = 0xFFFFFFFFu, greatest = 0;
  int odd = 0;
  members([&](float score, unsigned key) {
    least = key < least ? key : least;
    greatest = key > greatest ? key : greatest;
    const unsigned offset = key - base;
    if (!finite) {
      atomicAdd(&shared.counts.of[key >> (KEY_BITS - EVEN)], 1);
    } else if (offset >> WIDTH) {
      odd |= OUTSIDE;
    } else {
      atomicAdd(&shared.counts.of[offset >> (WIDTH - EVEN)], 1);
      if (sniffed) atomicAdd(&shared.long_codes.of[(key >> LONG) - (base >> LONG)], 1);
    }
    if (sniffed) {
      odd |= odd_of(score);
      atomicAdd(&shared.half_codes.of[half_key(score) - low], 1);
    }
  });
  atomicMin(&shared.least, least);
  atomicMax(&shared.greatest, greatest);
  if (odd != 0) atomicOr(&shared.odd, odd);
  __syncthreads();
  if (threadIdx.x < RANKS) {
    store_to(&shared.probed[rank][0], threadIdx.x, static_cast<int>(shared.least));
    store_to(&shared.probed[rank][1], threadIdx.x, static_cast<int>(shared.greatest));
    store_to(&shared.probed[rank][2], threadIdx.x, shared.odd);
  }
  cluster_sync();
  odd = 0;
  for (int other = 0; other < RANKS; ++other) {
    const unsigned from = shared.probed[other][0], to = shared.probed[other][1];
    least = from < least ? from : least;
    greatest = to > greatest ? to : greatest;
    odd |= shared.probed[other][2];
  }
  const bool offsets = finite && !(odd & OUTSIDE);
  if (least == greatest) return {least, 0};
  if (offsets && !(odd & NO_LONG)) {
    const Located found = locate(shared.long_codes, LONG_CODES, seen.need);
    return {((base >> LONG) + found.bin) << LONG, LONG};
  }
  if (!(odd & NO_HALF)) {
    const Located found = locate(shared.half_codes, 1 << FINER, seen.need);
    return {ordered_key(half_key_value(low + found.bin)), 0};
  }
  Search at{0, 0, seen.need, seen.population};
  if (offsets) {
    Offsets::each([&](int bits) {
      if (at.searched == 0) {
        advance<WIDTH>(at, bits, shared.counts, recorder);
      } else {
        narrow<WIDTH>(at, bits, shared.counts, recorder,
                      [&](auto visit) { members([&](float, unsigned key) { visit(key - base); }); });
      }
      return true;
    });
    return {base + at.pivot, 0};
  }
  Rescanned::each([&](int bits) {
    if (at.searched == 0 && !finite) {
      advance<KEY_BITS>(at, bits, shared.counts, recorder);
    } else {
      narrow<KEY_BITS>(at, bits, shared.counts, recorder,
                       [&](auto visit) { members([&](float, unsigned key) { visit(key); }); });
    }
    return true;
  });
  return {at.pivot, 0};
}
#endif

__device__ __forceinline__ void select(const Call& call, int block, Shared& shared) {
  const int number = block / RANKS, rank = cluster_rank();
  if (!call.takes(number)) return;  // nor does any other block of its cluster
  const Row row = call.row(number);
  const Output output = call.output(number, &shared.written);
  if (output.settles(row.length, rank == LEADER)) return;
  if (threadIdx.x == 0) shared.winners = shared.ties = 0;
  Recorder recorder(call.books, number, rank == LEADER);
  const Slice scores(row, rank, shared.kept);
  const auto bin = [](float score) { return bin_of(score); };
  const Coarse seen = coarse_pass(Bringing{scores}, call.k, shared.counts, call.books, number, recorder, bin);
  const int room = room_of(call.k), members = shared.counts.of[seen.bin];
  Collected all;
#ifdef WORKBENCH_OFFSET_DIGITS
  if (seen.buffered && seen.population > room) {  // told apart before anything is written
    recorder.fell_back();
    recorder.share(rank, members, 0, 0);
    const Cut cut = probe(seen, row, scores, rank, shared, recorder);
    const unsigned pivot = cut.pivot >> cut.shift;
    collect(scores, shared,
            [&](float score) {
              const int at = bin_of(score);
              if (at != seen.bin) return at > seen.bin ? Place::winner : Place::lost;
              const unsigned key = ordered_key(score) >> cut.shift;
              return key > pivot ? Place::winner : key == pivot ? Place::tie : Place::lost;
            },
            [](int) {});
    const Collected before = tell(rank, shared, all);
    for (int at = threadIdx.x; at < shared.winners; at += THREADS) {
      output.place(before.winners + at, shared.winner[at]);
    }
    const int stored = shared.ties < RANK_ROOM ? shared.ties : RANK_ROOM;
    for (int at = threadIdx.x; at < stored; at += THREADS) {
      output.place(all.winners + before.ties + at, shared.tie[at]);
    }
    return;
  }
#endif
  collect(scores, shared,
          [&](float score) {
            const int at = bin_of(score);
            return at > seen.bin ? Place::winner : at == seen.bin ? Place::tie : Place::lost;
          },
          [&](int index) { recorder.drop(index); });
  const Collected before = tell(rank, shared, all);
  int* workspace = call.workspace + static_cast<long long>(number) * 2 * room;
  for (int at = threadIdx.x; at < shared.winners; at += THREADS) output.place(before.winners + at, shared.winner[at]);
  const int held = shared.ties < RANK_ROOM ? shared.ties : RANK_ROOM;
  for (int at = threadIdx.x; at < held; at += THREADS) {
    const int place = before.ties + at, index = shared.tie[at];
    if (place < room) {
      workspace[2 * place] = index;
      workspace[2 * place + 1] = static_cast<int>(shared.tie_key[at]);
      output.place(all.winners + place, index);  // for the time being
    } else {
      recorder.drop(index);
    }
  }
  const int left = room > before.ties ? room - before.ties : 0, kept = held < left ? held : left;
  recorder.share(rank, members, kept, members - kept);
  const int stored = all.ties < room ? all.ties : room;
  recorder.stored(seen.buffered, stored);
  if (stored > seen.need) {
    cluster_sync();
    if (rank == LEADER) rank_again(workspace, stored, seen.need, shared, output, recorder);
  }
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
