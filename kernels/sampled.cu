// The sampled selector: a cut-off from a sample of the row, its survivors in a buffer, otherwise the row by its exact keys;
// short rows are filtered. Model: workbench/paths/models/sampled.py.
#include "collect.cuh"
#include "scores.cuh"

namespace workbench {

using Refined = Digits<WORKBENCH_DIGITS>;
constexpr int SURVIVORS = WORKBENCH_CAPACITY, SAMPLE = SURVIVORS > 1 ? SURVIVORS / 2 : 1;
constexpr int RUN = WORKBENCH_SAMPLE_RUN < SAMPLE ? WORKBENCH_SAMPLE_RUN : SAMPLE;  // neighbours in the sample
constexpr int RUNS = (SAMPLE + RUN - 1) / RUN;
constexpr int FINE_BITS = WORKBENCH_FINE_BITS;  // of the fp16 key: bins of the sample, and of what is cut exactly
constexpr int SLOTS = WORKBENCH_CAPACITY_MOST;  // of the filtered selector
constexpr int BINS = larger(larger(COARSE_BINS, 1 << FINE_BITS), 1 << Refined::most());
static_assert(SURVIVORS <= SLOTS && WORKBENCH_RANKED_TIES == 0, "survivors and their keys share the buffer");

struct Shared {
  Counts<BINS> counts;
  int written, equal;
  Candidates<SLOTS, 0> candidates;
};

using Held = Scores<WORKBENCH_ITEMS>;

__device__ __forceinline__ int fine_bin(float score) { return static_cast<int>(coarse_bin<FINE_BITS>(score)); }

// The k best of what each(visit) calls visit(index, key) for, by the bin and then the bytes of that bin's members; the
// equal ones first come.
template <class Each>
__device__ __forceinline__ void exact(Shared& shared, const Output& output, Recorder& recorder, Each each) {
  clear(shared.counts, 1 << FINE_BITS);
  each([&](int, unsigned key) { atomicAdd(&shared.counts.of[fine_bin(score_of(key))], 1); });
  const Located found = locate(shared.counts, 1 << FINE_BITS, output.k);
  Search at{0, 0, found.need, found.population};
  Refined::each([&](int bits) {
    narrow<KEY_BITS>(at, bits, shared.counts, recorder, [&](auto visit) {
      each([&](int, unsigned key) {
        if (fine_bin(score_of(key)) == found.bin) visit(key);
      });
    });
    return true;
  });
  emit<KEY_BITS>(at, output, &shared.equal, each);
}

// The least key that survives.
__device__ __forceinline__ unsigned cutoff(const Row& row, Shared& shared) {
  clear(shared.counts, 1 << FINE_BITS);
  for (int at = threadIdx.x; at < SAMPLE; at += THREADS) {
    const float score = row.scores[static_cast<long long>(at / RUN) * (row.length / RUNS) + at % RUN];
    atomicAdd(&shared.counts.of[fine_bin(score)], 1);
  }
  const int rank = static_cast<int>(static_cast<long long>(SAMPLE) * SAMPLE / row.length);
  const Located found = locate(shared.counts, 1 << FINE_BITS, rank > 1 ? rank : 1);
  const unsigned key = static_cast<unsigned>(found.bin) << (HALF_BITS - FINE_BITS);
  if (key > GREATEST_NUMBER) return ordered_key(__uint_as_float(0x7FC00000u));  // the bin of NaN begins at a NaN
  return key < LEAST_NUMBER ? 0u : ordered_key(half_key_value(key));            // the last bin has NaN below -inf
}

__device__ __forceinline__ void select(const Call& call, int number, Shared& shared) {
  if (!call.takes(number)) return;
  const Row row = call.row(number);
  const Output output = call.output(number, &shared.written);
  if (row.length <= call.k) return output.whole(row.length);
  if (threadIdx.x == 0) shared.written = 0;
  Recorder recorder(call.books, number);
  const Held scores(row);
  auto& held = shared.candidates;
  const int shortest =
      SURVIVORS * (call.k == WORKBENCH_SPECIAL_K ? WORKBENCH_CAPACITIES_SPECIAL : WORKBENCH_CAPACITIES);
  const auto every = [&](auto visit) {
    scores.each([&](int index, float score) { visit(index, ordered_key(score)); });
  };
  if (row.length < shortest) {
    const auto bin = [](float score) { return bin_of(score); };
    const Coarse seen = coarse_pass(scores, call.k, shared.counts, call.books, number, recorder, bin);
    if (!seen.buffered || seen.population <= SLOTS) {
      collect<Refined>(seen, scores, SLOTS, shared, output, recorder, bin,
                       [&](int index) { return ordered_key(row.scores[index]); });
      return finish(output);
    }
  } else {
    const unsigned least = cutoff(row, shared);
    held.empty();
    __syncthreads();
    every([&](int index, unsigned key) {
      if (key < least) return;
      const int slot = take_slot(&held.count[0]);
      if (slot >= SURVIVORS) return;
      held.members[0][slot] = index;
      held.members[1][slot] = static_cast<int>(key);
    });
    __syncthreads();
    const int survivors = held.count[0];
    if (survivors >= call.k && survivors <= SURVIVORS) {
      recorder.stored(true, survivors);
      exact(shared, output, recorder, [&](auto visit) {
        for (int slot = threadIdx.x; slot < survivors; slot += THREADS) {
          visit(held.members[0][slot], static_cast<unsigned>(held.members[1][slot]));
        }
      });
      return finish(output);
    }
  }
  recorder.fell_back();
  exact(shared, output, recorder, every);
  finish(output);
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
