// SGLang's v2 selector of a cluster: every block collects its part of the row by itself, the first holds the buffer of
// ties that the others add to, in whatever order they come.
#include "cluster.cuh"
#include "v2.cuh"

namespace workbench {

constexpr int MOST_K = WORKBENCH_MOST_K;
constexpr int SLOTS = larger(WORKBENCH_CAPACITY_MOST, RANK_ROOM);
constexpr bool CLAMPED = FALLBACK == Fallback::clamped;
static_assert(FALLBACK != Fallback::digits, "no cluster narrows its ties by wide digits");
static_assert(FALLBACK != Fallback::counted || RANK_ROOM >= WORKBENCH_CAPACITY, "no rank drops what would fit");

struct Shared {
  Gathered<BINS> counts;
  int winners, ties;  // that this block collected
  int first_winner, first_tie;  // where they go
  int winner[MOST_K];
  int written, all_ties, told_ties, equal;  // of the cluster, in the first block
  int clamped[RANKS];
  int bounds[RANKS][2];
  unsigned least, greatest;
  Candidates<SLOTS, RANKED> candidates;  // in the first block the buffer
};

__device__ __forceinline__ int lesser(int one, int other) { return one < other ? one : other; }

// Whether the ties overflow the buffer, as far as counts that the blocks clamp can tell. The selection finds that out
// when all is collected; this is for telling on the way what is dropped.
__device__ __forceinline__ bool foreseen(const Part& part, const Bounds& bounds, int rank, int room, Shared& shared) {
  int own = 0;
  if (threadIdx.x == 0) shared.ties = 0;
  __syncthreads();
  // One score at a time: wider loads spill registers.
  part.each_from<1, 1>(0, [&](int, float score) { own += score >= bounds.from && !(score >= bounds.to); });
  atomicAdd(&shared.ties, own);
  __syncthreads();
  const int told = rank == LEADER ? shared.ties : lesser(shared.ties, RANK_ROOM);
  if (threadIdx.x < RANKS) store_to(&shared.clamped[rank], threadIdx.x, told);
  cluster_sync();
  int ties = 0;
  for (int other = 0; other < RANKS; ++other) ties += shared.clamped[other];
  return ties > room;
}

// Places for what this block collected, behind what others did.
__device__ __forceinline__ void reserve(int winners, int* all_winners, int ties, int* all_ties, Shared& shared) {
  if (threadIdx.x == 0) {
    shared.first_winner = add_to(all_winners, LEADER, winners);
    shared.first_tie = add_to(all_ties, LEADER, ties);
  }
  __syncthreads();
}

// The `need` best of more ties than the buffer holds, from the row. each(visit) calls visit(index, key) for the ties of
// this thread.
template <class Each>
__device__ __forceinline__ void from_row(int ties, int need, int rank, Shared& shared, const Output& output,
                                         Recorder& recorder, Each each) {
  const auto keys = [&](auto visit) { each([&](int, unsigned key) { visit(key); }); };
  unsigned least = 0xFFFFFFFFu, greatest = 0;
  if (threadIdx.x == 0) {
    shared.least = least;
    shared.greatest = greatest;
    shared.winners = shared.ties = 0;
  }
  __syncthreads();
  keys([&](unsigned key) {
    least = key < least ? key : least;
    greatest = key > greatest ? key : greatest;
  });
  atomicMin(&shared.least, least);
  atomicMax(&shared.greatest, greatest);
  __syncthreads();
  if (threadIdx.x < RANKS) {
    store_to(&shared.bounds[rank][0], threadIdx.x, static_cast<int>(shared.least));
    store_to(&shared.bounds[rank][1], threadIdx.x, static_cast<int>(shared.greatest));
  }
  Search at{0, 0, need, ties};
  bool different = true;
  Narrowed::each([&](int bits) {
    const bool first = at.searched == 0;
    narrow<KEY_BITS>(at, bits, shared.counts, recorder, keys);
    if (first) {  // all blocks have told their bounds
      for (int other = 0; other < RANKS; ++other) {
        const unsigned from = shared.bounds[other][0], to = shared.bounds[other][1];
        least = from < least ? from : least;
        greatest = to > greatest ? to : greatest;
      }
      different = least != greatest;
    }
    return different;
  });
  if (!different) {  // any buffered ties will do
    for (int slot = threadIdx.x; rank == LEADER && slot < need; slot += THREADS) {
      output.place(output.k - need + slot, shared.candidates.members[0][slot]);
    }
    return;
  }
  recorder.fell_back();
  int* equal = shared.candidates.members[1];
  each([&](int index, unsigned key) {
    if (key > at.pivot) {
      const int slot = take_slot(&shared.winners);
      if (slot < MOST_K) shared.winner[slot] = index;
    } else if (key == at.pivot) {
      const int slot = take_slot(&shared.ties);
      if (slot < SLOTS) equal[slot] = index;
    }
  });
  __syncthreads();
  const int held = lesser(shared.ties, SLOTS);
  reserve(shared.winners, &shared.written, held, &shared.equal, shared);
  for (int slot = threadIdx.x; slot < shared.winners; slot += THREADS) {
    output.place(shared.first_winner + slot, shared.winner[slot]);
  }
  for (int slot = threadIdx.x; slot < held; slot += THREADS) {
    output.place(output.k - at.need + shared.first_tie + slot, equal[slot]);
  }
  cluster_sync();  // the first block is not to end before all have their places
}

__device__ __forceinline__ void select(const Call& call, int block, Shared& shared) {
  const int number = block / RANKS, rank = cluster_rank();
  if (!call.takes(number)) return;  // nor does any other block of its cluster
  const Row row = call.row(number);
  const Output output = call.output(number, &shared.written);
  if (output.settles(row.length, rank == LEADER)) return;
  auto& candidates = shared.candidates;
  if (threadIdx.x == 0) shared.winners = shared.written = shared.all_ties = shared.told_ties = shared.equal = 0;
  Recorder recorder(call.books, number, rank == LEADER);
  const Part part(row, rank);
  const Coarse seen = coarse_pass(part, call.k, shared.counts, call.books, number, recorder,
                                  [](float score) { return bin_of(score); });
  const Bounds bounds = bounds_of<COARSE_BITS, RULE>(seen.bin);
  const int room = room_of(call.k);
  bool drops = FALLBACK == Fallback::none;
  if constexpr (CLAMPED && TELEMETRY) drops = !foreseen(part, bounds, rank, room, shared);
  const auto missed = [&](int index) {
    if (drops) recorder.drop(index);
  };
  candidates.empty();
  __syncthreads();
  part.each([&](int index, float score) {
    if (score >= bounds.to) {
      const int slot = take_slot(&shared.winners);
      if (slot < MOST_K) {
        shared.winner[slot] = index;
      } else {
        recorder.drop(index);
      }
    } else if (score >= bounds.from && !candidates.store(index, RANK_ROOM)) {
      missed(index);
    }
  });
  __syncthreads();
  const int winners = lesser(shared.winners, MOST_K), found = candidates.count[0], held = lesser(found, RANK_ROOM);
  __syncthreads();
  if (threadIdx.x == 0 && rank == LEADER) {
    candidates.count[0] = held;
    shared.all_ties = shared.told_ties = found;
  }
  cluster_sync();  // the first block's ties come first
  reserve(winners, &shared.written, rank == LEADER ? 0 : held, &candidates.count[0], shared);
  if (threadIdx.x == 0 && rank != LEADER) {
    add_to(&shared.all_ties, LEADER, found);
    if constexpr (CLAMPED) add_to(&shared.told_ties, LEADER, held);
  }
  for (int slot = threadIdx.x; slot < winners; slot += THREADS) {
    const int place = shared.first_winner + slot;
    if (place < call.k) {
      output.place(place, shared.winner[slot]);
    } else {
      recorder.drop(shared.winner[slot]);
    }
  }
  const int first = rank == LEADER ? 0 : shared.first_tie;
  for (int slot = threadIdx.x; slot < held; slot += THREADS) {
    if (first + slot >= room) {
      missed(candidates.members[0][slot]);
    } else if (rank != LEADER) {
      store_to(&candidates.members[0][first + slot], LEADER, candidates.members[0][slot]);
    }
  }
  const int left = room > first ? room - first : 0, kept = lesser(held, left);
  recorder.share(rank, found, kept, drops ? found - kept : 0);
  cluster_sync();
  if constexpr (FALLBACK == Fallback::none) {
    if (rank != LEADER) return;
  }
  const int above = lesser(load_from(&shared.written, LEADER), call.k), need = call.k - above;
  const int ties = load_from(&shared.all_ties, LEADER), stored = lesser(load_from(&candidates.count[0], LEADER), room);
  recorder.stored(seen.buffered, stored);
  if constexpr (FALLBACK != Fallback::none) {
    const int told = CLAMPED ? load_from(&shared.told_ties, LEADER) : ties;
    cluster_sync();  // all have read them
    if (told > room) {
      if (need > 0) {
        from_row(ties, need, rank, shared, output, recorder, [&](auto visit) {
          part.each_from<LOAD, 1>(0, [&](int index, float score) {
            if (score >= bounds.from && !(score >= bounds.to)) visit(index, ordered_key(score));
          });
        });
      }
      return;
    }
    if (rank != LEADER) return;
  }
  const auto key_of = [&](int index) { return ordered_key(row.scores[index]); };
  __syncthreads();  // all have read it
  if (threadIdx.x == 0) shared.written = above;
  __syncthreads();
  if (need > 0) cut(candidates, stored, need, shared.counts.all, output, recorder, key_of);
  fill_up(above + ties, row, output);
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
