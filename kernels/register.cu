// Register selectors: one block a row that stays in registers, fine coarse bins, a small buffer of ties; and the repairs
// of them. Models: workbench/paths/models/{buffered,recovery,ordered}.py.
#include "collect.cuh"
#include "ordered.cuh"
#include "scores.cuh"

namespace workbench {

enum class Model { register_ties, register_recovery, ordered_register };

constexpr Model MODEL = Model::WORKBENCH_MODEL;
constexpr int SLOTS = WORKBENCH_CAPACITY_MOST;
using Refined = Digits<WORKBENCH_DIGITS>;
using Rescanned = Digits<WORKBENCH_RESCAN_DIGITS>;  // of the exact key, where a repair reads the row again

constexpr int BINS = larger(COARSE_BINS, 1 << larger(Refined::most(), Rescanned::most()));

struct Shared {
  Counts<BINS> counts;
  int written, equal, outside;
  Candidates<SLOTS, WORKBENCH_RANKED_TIES> candidates;
};

using Held = Scores<WORKBENCH_ITEMS>;

#ifdef WORKBENCH_OFFSET_DIGITS
// More ties than fit are told apart by digits of their offsets from the bin's lower end; where those do not serve, the
// row is searched by its exact keys.
__device__ __forceinline__ void recover(const Coarse& seen, const Row& row, const Held& scores, Shared& shared,
                                        const Output& output, Recorder& recorder) {
  using Offsets = Digits<WORKBENCH_OFFSET_DIGITS>;
  constexpr int WIDTH = WORKBENCH_OFFSET_BITS, SHIFT = HALF_BITS - COARSE_BITS;
  recorder.fell_back();
  const unsigned low = static_cast<unsigned>(seen.bin) << SHIFT, high = low + (1u << SHIFT) - 1u;
  const bool finite = low > LEAST_NUMBER && high < GREATEST_NUMBER;
  const unsigned first = finite ? ordered_key(half_key_value(low)) : 0u;
  const unsigned base = first > WORKBENCH_BELOW_BIN ? first - WORKBENCH_BELOW_BIN : 0u;
  const auto members = [&](auto visit) {
    scores.each([&](int index, float score) {
      if (bin_of(score) == seen.bin) visit(index, ordered_key(score) - base);
    });
  };
  if (threadIdx.x == 0) shared.outside = !finite;
  __syncthreads();
  members([&](int, unsigned offset) {
    if (offset >> WIDTH) raise(&shared.outside);
  });
  __syncthreads();
  if (shared.outside) {
    Search at{0, 0, output.k, row.length};
    Rescanned::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, shared.counts, recorder, [&](auto visit) {
        scores.each([&](int, float score) { visit(ordered_key(score)); });
      });
      return true;
    });
    emit<KEY_BITS>(at, output, &shared.equal, [&](auto visit) {
      scores.each([&](int index, float score) { visit(index, ordered_key(score)); });
    });
    return;
  }
  Search at{0, 0, seen.need, seen.population};
  Offsets::each([&](int bits) {
    narrow<WIDTH>(at, bits, shared.counts, recorder,
                  [&](auto visit) { members([&](int, unsigned offset) { visit(offset); }); });
    return true;
  });
  scores.each([&](int index, float score) {
    if (bin_of(score) > seen.bin) output.take(index);
  });
  emit<WIDTH>(at, output, &shared.equal, members);
}
#endif

// The threshold bin refined to the exact key, then winners in the order of their indices. Zeros have no sign.
__device__ __forceinline__ void in_order(const Coarse& seen, const Row& row, const Held& scores, Shared& shared,
                                         const Output& output, Recorder& recorder) {
  const auto bin = [](float score) { return bin_of(plain_zero(score)); };
  const auto key = [](float score) { return ordered_key(plain_zero(score)); };
  Search at{0, 0, seen.need, seen.population};
  if (seen.buffered) {
    Refined::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, shared.counts, recorder, [&](auto visit) {
        scores.each([&](int, float score) {
          if (bin(score) == seen.bin) visit(key(score));
        });
      });
      return true;
    });
  }
  const int shift = KEY_BITS - at.searched;
  const unsigned pivot = prefix_of(at.pivot, shift);
  sweep(row, at.need, output, shared.counts.sums, [&](float score) {
    const int at_bin = bin(score);
    if (at_bin != seen.bin) return at_bin > seen.bin ? WINNER : LOSER;
    const unsigned prefix = prefix_of(key(score), shift);
    return prefix > pivot ? WINNER : prefix == pivot ? EQUAL : LOSER;
  });
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
  constexpr bool UNSIGNED_ZERO = MODEL == Model::ordered_register;
  const auto bin = [](float score) { return bin_of(UNSIGNED_ZERO ? plain_zero(score) : score); };
  const auto key_of = [&](int index) { return ordered_key(row.scores[index]); };
  const Coarse seen = coarse_pass(scores, call.k, shared.counts, call.books, number, recorder, bin);
  if constexpr (MODEL == Model::ordered_register) {
    in_order(seen, row, scores, shared, output, recorder);
  } else {
    const int room = room_of(call.k);
    if (MODEL == Model::register_ties || !seen.buffered || seen.population <= room) {
      collect<Refined>(seen, scores, room, shared, output, recorder, bin, key_of);
#ifdef WORKBENCH_OFFSET_DIGITS
    } else {
      recover(seen, row, scores, shared, output, recorder);
#endif
    }
    finish(output);
  }
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
